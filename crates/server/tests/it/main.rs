//! The API over real HTTP, against a real engine on the memory store; only the participants follow a script.

mod actions;
mod callbacks;
mod client;
mod definitions;
mod health;
mod hostile;
mod lifecycle;
mod locks;
mod openapi;
mod roles;
mod sagas;
mod script;
mod store;
mod world;
