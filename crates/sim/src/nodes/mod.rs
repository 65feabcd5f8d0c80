//! Nodes: each a host on which one engine lives after another.

mod host;
mod life;

pub(crate) use host::{Host, supervise};
pub(crate) use life::Life;
