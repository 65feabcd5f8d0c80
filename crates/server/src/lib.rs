//! The HTTP API of amends.
//!
//! Handlers are thin: they read a request, ask the engine, and write the answer. What is on the wire is defined here
//! alone (`dto`, `problem`); core types never are. Every refusal, whatever its cause, is `application/problem+json`.
//! What a request is checked for, in this order: who sends it, its size, its form, whether what it names exists, the
//! version seen, and the state.

mod app;
mod auth;
mod body;
mod callers;
mod config;
mod counts;
mod cursor;
mod dto;
mod extract;
mod json;
mod problem;
mod reading;
mod refuse;
mod respond;
mod routes;
mod secret;
mod serve;
mod trace;

pub use app::{App, Settings};
pub use config::{Role, ServerConfig, TokenConfig};
pub use secret::SecretRef;
pub use serve::{ConnectionLimits, serve, serve_router};
