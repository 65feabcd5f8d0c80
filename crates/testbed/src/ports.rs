//! Private ports.

use std::net::TcpListener;

use anyhow::{Context, Result};

/// Ports above this one are left alone where a port needs a second one at a distance (`cluster_port`).
const HIGHEST: u16 = 50_000;

/// A port of loopback that is free now. The system does not give the same one again at once.
///
/// # Errors
/// If there is none.
pub(crate) fn free() -> Result<u16> {
    // A cluster's bus uses a port ten thousand above: both have to exist.
    for _ in 0..1_000 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port on loopback")?;
        let port = listener.local_addr()?.port();
        if port < HIGHEST {
            return Ok(port);
        }
    }
    anyhow::bail!("no free port below {HIGHEST} on loopback")
}
