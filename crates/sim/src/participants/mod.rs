//! Participants, and the wire between them and the nodes.

pub(crate) mod answers;
mod books;
mod does;
mod script;
mod service;
mod wire;

pub(crate) use books::Books;
pub use does::Does;
pub(crate) use does::Habits;
pub(crate) use script::Script;
pub(crate) use service::Message;
pub(crate) use wire::Wire;
