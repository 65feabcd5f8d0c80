//! The last door before the socket: asks for the lease right before each write (rule 1), and remembers whether anything went
//! through, so that "nothing was sent" is known rather than guessed.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

use crate::port::LeaseCheck;

/// What one call needs to write, and what its writes left behind.
pub struct Pass {
    lease: LeaseCheck,
    written: AtomicBool,
    lapsed: AtomicBool,
}

impl Pass {
    pub(crate) fn new(lease: LeaseCheck) -> Arc<Self> {
        Arc::new(Self { lease, written: AtomicBool::new(false), lapsed: AtomicBool::new(false) })
    }

    /// Whether the call may send: asked right before its first byte, of whoever does not write through a gate. After a yes the
    /// call counts as sent, whatever becomes of it.
    #[must_use]
    pub fn may_send(&self) -> bool {
        let holds = (self.lease)();
        let what = if holds { &self.written } else { &self.lapsed };
        what.store(true, Ordering::Release);
        holds
    }

    /// Whether bytes of the request may have left.
    pub(crate) fn written(&self) -> bool {
        self.written.load(Ordering::Acquire)
    }

    /// Whether the lease was found lapsed when bytes were to be written.
    pub(crate) fn lapsed(&self) -> bool {
        self.lapsed.load(Ordering::Acquire)
    }
}

/// Where a connection finds the pass of the call that it serves.
#[derive(Clone, Default)]
pub(crate) struct Keyhole(Arc<Mutex<Option<Arc<Pass>>>>);

impl Keyhole {
    /// Lets a call write.
    pub(crate) fn insert(&self, pass: Arc<Pass>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(pass);
    }

    /// Lets nobody write.
    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn pass(&self) -> Option<Arc<Pass>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A stream with the door in front of it.
pub(crate) struct Gate<S> {
    stream: S,
    keyhole: Keyhole,
    /// A write that fails has taken nothing. So it is with a plain socket; a TLS stream may have sent a part of it already.
    failure_is_proof: bool,
}

impl<S> Gate<S> {
    pub(crate) fn new(stream: S, failure_is_proof: bool) -> (Self, Keyhole) {
        let keyhole = Keyhole::default();
        (Self { stream, keyhole: keyhole.clone(), failure_is_proof }, keyhole)
    }

    /// Runs one write of the stream, if it is allowed.
    fn write(&mut self, write: impl FnOnce(&mut S) -> Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let Some(pass) = self.keyhole.pass() else {
            return Poll::Ready(Err(io::Error::other("no call is under way on this connection")));
        };
        if !(pass.lease)() {
            pass.lapsed.store(true, Ordering::Release);
            return Poll::Ready(Err(io::Error::other("the node's lease has lapsed")));
        }
        let result = write(&mut self.stream);
        let nothing_left = match &result {
            Poll::Ready(Ok(n)) => *n == 0,
            Poll::Ready(Err(_)) | Poll::Pending => self.failure_is_proof,
        };
        if !nothing_left {
            pass.written.store(true, Ordering::Release);
        }
        result
    }
}

impl<S: Read + Unpin> Read for Gate<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: Write + Unpin> Write for Gate<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write(|stream| Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|stream| Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A stream that answers each write with what the test says.
    struct Scripted(Vec<Poll<io::Result<usize>>>);

    fn gate(failure_is_proof: bool, script: Vec<Poll<io::Result<usize>>>) -> (Gate<Scripted>, Keyhole) {
        Gate::new(Scripted(script), failure_is_proof)
    }

    fn write(gate: &mut Gate<Scripted>) -> Poll<io::Result<usize>> {
        gate.write(|stream| stream.0.remove(0))
    }

    fn broken() -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
    }

    #[test]
    fn the_lease_is_asked_before_each_write() {
        let asked = Arc::new(AtomicUsize::new(0));
        let (mut gate, keyhole) = gate(true, vec![Poll::Ready(Ok(3)), Poll::Ready(Ok(3))]);
        let pass = Pass::new({
            let asked = asked.clone();
            Arc::new(move || asked.fetch_add(1, Ordering::Relaxed) < 1)
        });
        keyhole.insert(pass.clone());
        assert!(matches!(write(&mut gate), Poll::Ready(Ok(3))));
        assert!(pass.written() && !pass.lapsed());
        assert!(matches!(write(&mut gate), Poll::Ready(Err(_))));
        assert!(pass.lapsed());
        assert_eq!(gate.stream.0.len(), 1, "the second write did not reach the stream");
    }

    #[test]
    fn without_a_pass_nothing_is_written() {
        let (mut gate, keyhole) = gate(true, vec![Poll::Ready(Ok(3))]);
        assert!(matches!(write(&mut gate), Poll::Ready(Err(_))));
        keyhole.insert(Pass::new(Arc::new(|| true)));
        keyhole.clear();
        assert!(matches!(write(&mut gate), Poll::Ready(Err(_))));
        assert_eq!(gate.stream.0.len(), 1);
    }

    #[test]
    fn a_failed_write_proves_that_nothing_left_only_on_a_plain_socket() {
        for (plain, result, expected) in [
            (true, Poll::Ready(Ok(1)), true),
            (true, Poll::Ready(Ok(0)), false),
            (true, Poll::Pending, false),
            (true, broken(), false),
            (false, Poll::Ready(Ok(1)), true),
            (false, Poll::Pending, true),
            (false, broken(), true),
        ] {
            let (mut gate, keyhole) = gate(plain, vec![result]);
            let pass = Pass::new(Arc::new(|| true));
            keyhole.insert(pass.clone());
            let _ = write(&mut gate);
            assert_eq!(pass.written(), expected);
        }
    }
}
