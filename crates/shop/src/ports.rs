//! Addresses on loopback for servers that have to come back at the same place.

use std::net::{SocketAddr, TcpListener};

/// Ports are taken from here up: below what systems give to outgoing connections, so that the port of a server that is dead
/// for a moment is not given to somebody else.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Where a participant is.
#[derive(Debug, Clone)]
pub struct Address {
    /// Its name.
    pub name: String,
    /// Its address.
    pub at: SocketAddr,
}

/// An address that nobody uses at the moment, and none of `taken`. `None`: there is none.
#[must_use]
pub fn free_address(taken: &[Address]) -> Option<SocketAddr> {
    // Begun at a place that differs between runs, so that two at once seldom meet.
    let span = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id().wrapping_mul(7) % span;
    (0..span).find_map(|n| {
        let port = PORTS.start + u16::try_from((first + n) % span).ok()?;
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        let is_free = taken.iter().all(|other| other.at != at) && TcpListener::bind(at).is_ok();
        is_free.then_some(at)
    })
}
