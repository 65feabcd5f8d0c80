//! How many calls to one participant are in flight at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a call waits for a place before it is held back: rule 1 makes a longer wait visible.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(1);

/// How many calls may wait at once; more are held back without waiting, since they would hardly get a place in time.
pub(crate) const WAITING_MAX: usize = 4_096;

#[derive(Debug)]
pub(crate) struct Limit {
    places: Arc<Semaphore>,
    max: usize,
    waiting: AtomicUsize,
}

impl Limit {
    pub(crate) fn new(max: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(max)), max, waiting: AtomicUsize::new(0) }
    }

    /// Takes a place, waiting up to [`WAIT_MAX`] for one, first come, first served. `None` if there is none.
    pub(crate) async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Some(place);
        }
        let _waiting = Waiting::join(&self.waiting)?;
        let place = tokio::time::timeout(WAIT_MAX, self.places.clone().acquire_owned()).await.ok()?;
        Some(place.expect("the semaphore is never closed"))
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.max - self.places.available_permits()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// Counts one waiting call for as long as it lives, also when it is dropped half-way.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn join(count: &'a AtomicUsize) -> Option<Self> {
        let waiting = Self(count);
        let before = count.fetch_add(1, Ordering::Relaxed);
        (before < WAITING_MAX).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_limit_holds_back_after_a_second() {
        let limit = Limit::new(1);
        let place = limit.enter().await.expect("a free place");
        assert_eq!((limit.in_flight(), limit.waiting()), (1, 0));

        let before = tokio::time::Instant::now();
        assert!(limit.enter().await.is_none());
        assert_eq!(before.elapsed(), WAIT_MAX);
        assert_eq!((limit.in_flight(), limit.waiting()), (1, 0));

        drop(place);
        assert!(limit.enter().await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_the_place_that_becomes_free() {
        let limit = Arc::new(Limit::new(1));
        let place = limit.enter().await.expect("a free place");
        let waiter = tokio::spawn({
            let limit = limit.clone();
            async move { limit.enter().await.is_some() }
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(limit.waiting(), 1);
        drop(place);
        assert!(waiter.await.expect("no panic"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_gives_up_waiting_leaves_the_count() {
        let limit = Limit::new(1);
        let _place = limit.enter().await.expect("a free place");
        assert!(tokio::time::timeout(Duration::from_millis(10), limit.enter()).await.is_err());
        assert_eq!(limit.waiting(), 0);
    }
}
