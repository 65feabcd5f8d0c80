//! A holder whose backend does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use amends_store::locks::{
    Acquired, Ask, Because, Hold, HoldError, Lease, LeaseOver, LockName, LockView, Locks, MemoryLocks,
    Release, Renewal, Ttl, hold, margin_ms,
};
use amends_store::{Error, Kind};
use async_trait::async_trait;

/// Locks that lose answers, or are not there.
#[derive(Default)]
struct Faulty {
    locks: MemoryLocks,
    /// Nothing is carried out.
    gone: AtomicBool,
    /// The next acquisition is carried out, and its answer lost.
    loses_answer: AtomicBool,
    /// Answers come this many milliseconds after the call was carried out.
    slow_ms: AtomicU64,
    /// Renewals hang.
    hangs: AtomicBool,
    renewals: AtomicU32,
}

impl Faulty {
    fn reached(&self) -> Result<(), Error> {
        if self.gone.load(Ordering::SeqCst) {
            return Err(Error::new(Kind::Unavailable, "there is nobody"));
        }
        Ok(())
    }

    async fn answers(&self) {
        tokio::time::sleep(Duration::from_millis(self.slow_ms.load(Ordering::SeqCst))).await;
    }
}

#[async_trait]
impl Locks for Faulty {
    async fn acquire(&self, ask: &Ask) -> Result<Acquired, Error> {
        self.reached()?;
        let acquired = self.locks.acquire(ask).await?;
        if self.loses_answer.swap(false, Ordering::SeqCst) {
            return Err(Error::new(Kind::Indeterminate, "the answer was lost"));
        }
        self.answers().await;
        Ok(acquired)
    }

    async fn renew(&self, hold: &Hold, ttl: Ttl) -> Result<Renewal, Error> {
        self.renewals.fetch_add(1, Ordering::SeqCst);
        self.reached()?;
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let renewed = self.locks.renew(hold, ttl).await;
        self.answers().await;
        renewed
    }

    async fn release(&self, hold: &Hold, because: &Because) -> Result<Release, Error> {
        self.reached()?;
        self.locks.release(hold, because).await
    }

    async fn show(&self, name: &LockName) -> Result<LockView, Error> {
        self.reached()?;
        self.locks.show(name).await
    }
}

fn ask(ttl_ms: u64) -> Ask {
    Ask::new(LockName::new("a").unwrap(), Ttl::from_ms(ttl_ms).unwrap())
}

fn because() -> Because {
    Because::abandon("nothing was done").unwrap()
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again() {
    let locks = Arc::new(Faulty::default());
    locks.loses_answer.store(true, Ordering::SeqCst);
    let lease = Lease::acquire(locks.clone(), &ask(60_000)).await.unwrap().expect("it is this owner's");
    assert_eq!(locks.show(lease.name()).await.unwrap().token, Some(lease.token()));
    assert_eq!(lease.release(&because()).await.unwrap(), Release::Released);
}

#[tokio::test]
async fn work_goes_on_without_its_backend_until_the_lease_has_passed() {
    let locks = Arc::new(Faulty::default());
    let steps = AtomicU32::new(0);
    let ended = hold(locks.clone(), &ask(600), async |lease| {
        locks.gone.store(true, Ordering::SeqCst);
        assert!(lease.renew().await.is_ok(), "the lease lasts although it could not be renewed");
        loop {
            steps.fetch_add(1, Ordering::SeqCst);
            // Its error is not looked at: the guard stops the work.
            let _ = lease.renew_if_needed().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        #[allow(unreachable_code, reason = "it says of which type the work's value is")]
        ((), None)
    })
    .await;
    assert!(matches!(ended, Err(HoldError::Over(LeaseOver::Passed))), "{ended:?}");
    assert!(steps.load(Ordering::SeqCst) > 0);
    // It asks again, but not at each step.
    let renewals = locks.renewals.load(Ordering::SeqCst);
    assert!((2..=13).contains(&renewals), "{renewals}");
}

#[tokio::test]
async fn a_lease_counts_from_before_it_was_asked_for() {
    const SLOW_MS: u64 = 300;
    let locks = Arc::new(Faulty::default());
    locks.slow_ms.store(SLOW_MS, Ordering::SeqCst);
    let lease = Lease::acquire(locks.clone(), &ask(60_000)).await.unwrap().unwrap();
    let most = Duration::from_millis(60_000 - margin_ms(60_000) - SLOW_MS);
    assert!(lease.left() <= most, "{:?}", lease.left());
    lease.renew().await.unwrap();
    assert!(lease.left() <= most, "{:?}", lease.left());
    // An answer that took longer than the lease is no lease.
    locks.slow_ms.store(200, Ordering::SeqCst);
    let late = Ask { name: LockName::new("b").unwrap(), ..ask(100) };
    let late = Lease::acquire(locks, &late).await.unwrap().unwrap();
    assert_eq!(late.check(), Err(LeaseOver::Passed));
}

#[tokio::test]
async fn a_renewal_that_hangs_does_not_hold_the_work() {
    let locks = Arc::new(Faulty::default());
    let lease = Lease::acquire(locks.clone(), &ask(200)).await.unwrap().unwrap();
    locks.hangs.store(true, Ordering::SeqCst);
    assert_eq!(lease.renew().await, Err(LeaseOver::Passed));
    // The backend believes in it a little longer than its holder.
    assert!(lease.left().is_zero());
}

#[tokio::test]
async fn a_release_that_reaches_nobody_leaves_the_value() {
    let locks = Arc::new(Faulty::default());
    let worked = hold(locks.clone(), &ask(60_000), async |_lease| {
        locks.gone.store(true, Ordering::SeqCst);
        (Err::<(), _>("refused by the bank"), Some(because()))
    })
    .await
    .unwrap();
    assert_eq!(worked.value, Err("refused by the bank"));
    let error = worked.release.expect("a reason was given").unwrap_err();
    assert_eq!(error.kind, Kind::Unavailable);
}

#[tokio::test]
async fn a_released_lease_is_over_for_every_clone() {
    let lease = Lease::acquire(Arc::new(MemoryLocks::new()), &ask(60_000)).await.unwrap().unwrap();
    let clone = lease.clone();
    assert_eq!(clone.check(), Ok(lease.token()));
    assert!(lease.left() <= Duration::from_millis(58_000), "the margin is missing");
    lease.release(&because()).await.unwrap();
    assert!(clone.check().is_err() && clone.left().is_zero());
    assert!(clone.over().await == clone.check().unwrap_err());
}
