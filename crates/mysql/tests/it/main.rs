//! Against a real server.

mod locks;
mod store;
