//! Calls over real sockets on loopback, to servers that misbehave. Each test also counts what the server saw: a request that
//! comes twice is as wrong as a wrong answer.

mod answers;
mod callbacks;
mod calls;
mod connections;
mod drivers;
mod headers;
mod holding;
mod lease;
mod secrets;
mod server;
mod tls;
