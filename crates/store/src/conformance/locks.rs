//! What every backend of locks must pass. Waiting is for leases to end, never a measure: no test fails because a machine is slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use amends_core::SagaId;
use async_trait::async_trait;
use tokio::time::sleep;

use crate::locks::{
    Acquired, Ask, Because, Busy, Granted, Hold, HoldError, LABEL_BYTES_MAX, Label, Lease, LeaseOver,
    LockName, Locks, Lost, NAME_BYTES_MAX, OWNER_BYTES_MAX, Owner, REASON_BYTES_MAX, Release, Renewal,
    TOKEN_MAX, TTL_MS_MIN, Ttl, hold, running_ms,
};

/// Locks that were never used, and how their backend is stopped and started.
#[async_trait]
pub trait LocksFixture: Send {
    /// The locks. After [`LocksFixture::reopen`] others over the same records.
    fn locks(&self) -> Arc<dyn Locks>;

    /// Ends the backend as hard as it can be ended, and starts it again. Nothing of what [`LocksFixture::locks`] gave is held any more.
    async fn reopen(&mut self);
}

/// Makes a `#[tokio::test]` of every function of the suite of locks. `$make` is an `async fn` that gives a
/// [`LocksFixture`](crate::conformance::locks::LocksFixture) whose locks were never used.
///
/// The crate that uses it needs `tokio` with the features `macros`, `rt-multi-thread` and `time`.
#[macro_export]
macro_rules! locks_suite {
    ($make:ident) => {
        $crate::locks_tests! { $make;
            locks {
                a_lock_has_one_holder_at_a_time
                one_of_many_callers_gets_a_free_lock
                many_calls_of_one_owner_are_one_acquisition
                tokens_only_grow
                a_lease_that_is_over_is_anybodys
                a_lease_is_prolonged_and_never_shortened
                the_same_owner_gets_the_same_token
                a_release_checks_token_and_owner
                a_second_release_is_answered_as_the_first
                the_last_release_is_recorded
                who_waits_learns_the_holder_but_not_its_owner
                names_are_compared_byte_by_byte
                the_longest_values_fit
                leases_outlive_their_backend
                a_paused_holder_is_refused_by_its_token
                work_is_stopped_when_its_lease_is_over
                work_goes_on_as_long_as_it_renews
                work_is_stopped_when_its_lock_is_lost
                a_failed_release_does_not_mask_the_work
            }
        }
    };
}

/// Makes the tests that [`locks_suite!`] lists.
#[doc(hidden)]
#[macro_export]
macro_rules! locks_tests {
    ($make:ident; $area:ident { $($name:ident)+ }) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let mut fixture = $make().await;
                $crate::conformance::$area::$name(&mut fixture).await;
            }
        )+
    };
}

/// Callers that run at once.
const CALLERS: usize = 24;
/// How often the lock changes hands under load.
const HANDS: u64 = 120;

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

fn ttl(ms: u64) -> Ttl {
    Ttl::from_ms(ms).unwrap()
}

/// A lease that does not end within a test.
fn long() -> Ttl {
    ttl(600_000)
}

fn short() -> Ttl {
    ttl(TTL_MS_MIN)
}

fn ask(text: &str, ttl: Ttl) -> Ask {
    Ask::new(name(text), ttl)
}

fn nothing_to_do() -> Because {
    Because::abandon("a test has nothing to recover").unwrap()
}

fn hold_of(ask: &Ask, granted: Granted) -> Hold {
    Hold { name: ask.name.clone(), owner: Some(ask.owner.clone()), token: granted.token }
}

async fn granted(locks: &dyn Locks, ask: &Ask) -> Granted {
    match locks.acquire(ask).await.unwrap() {
        Acquired::Held(granted) => granted,
        Acquired::Busy(busy) => panic!("{} is busy: {busy:?}", ask.name),
    }
}

async fn busy(locks: &dyn Locks, text: &str) -> Busy {
    match locks.acquire(&ask(text, long())).await.unwrap() {
        Acquired::Busy(busy) => busy,
        Acquired::Held(granted) => panic!("{text} was free: {granted:?}"),
    }
}

async fn take(locks: &dyn Locks, text: &str, ttl: Ttl) -> Hold {
    let ask = ask(text, ttl);
    let granted = granted(locks, &ask).await;
    hold_of(&ask, granted)
}

/// Waits until a lock can be taken, and takes it.
async fn take_when_free(locks: &dyn Locks, text: &str) -> Hold {
    let ask = ask(text, long());
    loop {
        match locks.acquire(&ask).await.unwrap() {
            Acquired::Held(granted) => return hold_of(&ask, granted),
            Acquired::Busy(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn release(locks: &dyn Locks, hold: &Hold) -> Release {
    locks.release(hold, &nothing_to_do()).await.unwrap()
}

/// Under load there is never a second holder, and each has a higher token than the one before.
pub async fn a_lock_has_one_holder_at_a_time(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let inside = Arc::new(AtomicBool::new(false));
    let highest = Arc::new(AtomicU64::new(0));
    let hands = Arc::new(AtomicU64::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (locks, inside, highest, hands) =
                (Arc::clone(&locks), Arc::clone(&inside), Arc::clone(&highest), Arc::clone(&hands));
            tokio::spawn(async move {
                while hands.load(Ordering::SeqCst) < HANDS {
                    let ask = ask("hot", long());
                    let Acquired::Held(granted) = locks.acquire(&ask).await.unwrap() else {
                        sleep(Duration::from_millis(2)).await;
                        continue;
                    };
                    assert!(!inside.swap(true, Ordering::SeqCst), "there are two holders");
                    assert!(
                        highest.swap(granted.token, Ordering::SeqCst) < granted.token,
                        "a token went back"
                    );
                    tokio::task::yield_now().await;
                    hands.fetch_add(1, Ordering::SeqCst);
                    inside.store(false, Ordering::SeqCst);
                    assert_eq!(release(&*locks, &hold_of(&ask, granted)).await, Release::Released);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("a caller panicked");
    }
    assert!(hands.load(Ordering::SeqCst) >= HANDS);
}

/// Of many that ask at the same moment one gets it.
pub async fn one_of_many_callers_gets_a_free_lock(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    for round in 0..10 {
        let text = format!("round:{round}");
        let held = AtomicU64::new(0);
        let calls = (0..CALLERS).map(|_| {
            let (locks, ask) = (Arc::clone(&locks), ask(&text, long()));
            tokio::spawn(async move { locks.acquire(&ask).await.unwrap() })
        });
        for call in calls.collect::<Vec<_>>() {
            held.fetch_add(u64::from(matches!(call.await.unwrap(), Acquired::Held(_))), Ordering::SeqCst);
        }
        assert_eq!(held.load(Ordering::SeqCst), 1);
    }
}

/// A request that arrives many times at once is granted once.
pub async fn many_calls_of_one_owner_are_one_acquisition(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let ask = ask("resent", long());
    let calls = (0..CALLERS).map(|_| {
        let (locks, ask) = (Arc::clone(&locks), ask.clone());
        tokio::spawn(async move { granted(&*locks, &ask).await })
    });
    let mut all = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        all.push(call.await.unwrap());
    }
    assert!(all.iter().all(|granted| granted.token == all[0].token), "{all:?}");
    assert_eq!(all.iter().filter(|granted| !granted.again).count(), 1, "{all:?}");
}

/// Tokens grow over releases, ends of leases, and the backend's end; each is at least the time it was given at.
pub async fn tokens_only_grow(fixture: &mut impl LocksFixture) {
    let mut last = 0;
    let mut grows = |granted: Granted| {
        assert!(granted.token > last, "{} after {last}", granted.token);
        assert!(i128::from(granted.token) >= i128::from(granted.since.0) && granted.token <= TOKEN_MAX);
        last = granted.token;
    };
    for _ in 0..3 {
        let locks = fixture.locks();
        // Faster than one a millisecond.
        for _ in 0..20 {
            let ask = ask("a", long());
            let got = granted(&*locks, &ask).await;
            grows(got);
            release(&*locks, &hold_of(&ask, got)).await;
        }
        grows(granted(&*locks, &ask("a", short())).await);
        let hold = take_when_free(&*locks, "a").await;
        let held = granted(&*locks, &Ask { owner: hold.owner.clone().unwrap(), ..ask("a", long()) }).await;
        grows(held);
        release(&*locks, &hold).await;
        drop(locks);
        fixture.reopen().await;
    }
}

/// Once its time is over a lock can be taken; what its former holder says then changes nothing.
pub async fn a_lease_that_is_over_is_anybodys(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let former = take(&*locks, "a", short()).await;
    let present = take_when_free(&*locks, "a").await;
    assert!(present.token > former.token);
    assert_eq!(locks.renew(&former, long()).await.unwrap(), Renewal::Lost(Lost::Taken));
    assert_eq!(release(&*locks, &former).await, Release::LeaseLost(Lost::Taken));
    busy(&*locks, "a").await;
    assert_eq!(release(&*locks, &present).await, Release::Released);

    // Nobody has taken it: it is over all the same, and cannot be brought back.
    let late = take(&*locks, "b", short()).await;
    while locks.show(&late.name).await.unwrap().held.is_some() {
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(locks.renew(&late, long()).await.unwrap(), Renewal::Lost(Lost::Expired));
    assert_eq!(release(&*locks, &late).await, Release::LeaseLost(Lost::Expired));
    take(&*locks, "b", long()).await;
}

/// A renewal lets it last; one that asks for less takes nothing away.
pub async fn a_lease_is_prolonged_and_never_shortened(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let hold = loop {
        let hold = take(&*locks, "a", short()).await;
        // On a slow machine it may be over by now.
        match locks.renew(&hold, long()).await.unwrap() {
            Renewal::Renewed { left_ms } => {
                assert_eq!(left_ms, long().ms());
                break hold;
            }
            Renewal::Lost(Lost::Expired) => {}
            other @ (Renewal::Lost(_) | Renewal::OwnerMismatch) => panic!("{other:?}"),
        }
    };
    sleep(Duration::from_millis(2 * TTL_MS_MIN)).await;
    busy(&*locks, "a").await;
    let Renewal::Renewed { left_ms } = locks.renew(&hold, short()).await.unwrap() else {
        panic!("not renewed")
    };
    assert!(left_ms > short().ms(), "{left_ms}");
    let other = Hold { owner: Some(Owner::random()), ..hold.clone() };
    assert_eq!(locks.renew(&other, long()).await.unwrap(), Renewal::OwnerMismatch);
    let unknown = Hold { token: hold.token + 1, ..hold.clone() };
    assert_eq!(locks.renew(&unknown, long()).await.unwrap(), Renewal::Lost(Lost::Unknown));
    assert_eq!(release(&*locks, &hold).await, Release::Released);
    assert_eq!(locks.renew(&hold, long()).await.unwrap(), Renewal::Lost(Lost::Released));
}

/// A request sent again is harmless while the lease lasts; after its end it is a new one.
pub async fn the_same_owner_gets_the_same_token(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let first = ask("a", ttl(60_000));
    let got = granted(&*locks, &first).await;
    assert!(!got.again && got.left_ms == 60_000);
    let again = granted(&*locks, &Ask { ttl: long(), ..first.clone() }).await;
    assert_eq!(
        (again.token, again.since, again.again, again.left_ms),
        (got.token, got.since, true, long().ms())
    );
    let shorter = granted(&*locks, &Ask { ttl: short(), ..first.clone() }).await;
    assert!(shorter.left_ms > 60_000, "{shorter:?}");
    release(&*locks, &hold_of(&first, got)).await;
    let anew = granted(&*locks, &first).await;
    assert!(!anew.again && anew.token > got.token);
}

/// Only the last token and its owner release, and only the lock they are of.
pub async fn a_release_checks_token_and_owner(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let held = take(&*locks, "a", long()).await;
    let other = Hold { owner: Some(Owner::random()), ..held.clone() };
    assert_eq!(release(&*locks, &other).await, Release::OwnerMismatch);
    let lower = Hold { token: held.token - 1, ..held.clone() };
    assert_eq!(release(&*locks, &lower).await, Release::LeaseLost(Lost::Taken));
    let higher = Hold { token: held.token + 1, ..held.clone() };
    assert_eq!(release(&*locks, &higher).await, Release::LeaseLost(Lost::Unknown));
    let elsewhere = Hold { name: name("b"), ..held.clone() };
    assert_eq!(release(&*locks, &elsewhere).await, Release::LeaseLost(Lost::Unknown));
    busy(&*locks, "a").await;
    // A release makes no record of a lock that was never used.
    assert_eq!(locks.show(&name("b")).await.unwrap(), Default::default());

    let by_token = Hold { owner: None, ..held };
    assert_eq!(release(&*locks, &by_token).await, Release::Released);
    take(&*locks, "a", long()).await;
}

/// A release that arrives twice is told the same twice, and recorded once.
pub async fn a_second_release_is_answered_as_the_first(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let held = take(&*locks, "a", long()).await;
    assert_eq!(release(&*locks, &held).await, Release::Released);
    let recorded = locks.show(&held.name).await.unwrap();
    let again = Because::abandon("another reason").unwrap();
    assert_eq!(locks.release(&held, &again).await.unwrap(), Release::Released);
    assert_eq!(locks.show(&held.name).await.unwrap(), recorded);
    take(&*locks, "a", long()).await;
    assert_eq!(release(&*locks, &held).await, Release::LeaseLost(Lost::Taken));
}

/// The last release is in the lock's record, whatever its outcome, and stays there when the lock is taken again.
pub async fn the_last_release_is_recorded(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let held = take(&*locks, "a", long()).await;
    let last =
        async |text: &str| locks.show(&name(text)).await.unwrap().last_release.expect("nothing was recorded");
    assert_eq!(locks.show(&held.name).await.unwrap().last_release, None);

    let mismatch = Hold { owner: Some(Owner::random()), ..held.clone() };
    release(&*locks, &mismatch).await;
    assert_eq!(last("a").await.outcome, "owner_mismatch");
    let saga = Because::Saga(SagaId::new("order:7 \u{202e}'").unwrap());
    locks.release(&held, &saga).await.unwrap();
    let recorded = last("a").await;
    assert_eq!(
        (recorded.token, recorded.outcome.as_str(), &recorded.because),
        (held.token, "released", &saga)
    );
    let next = take(&*locks, "a", long()).await;
    assert_eq!(last("a").await, recorded);
    release(&*locks, &held).await;
    let lost = last("a").await;
    assert_eq!(
        (lost.token, lost.outcome.as_str(), lost.because),
        (held.token, "lease_lost", nothing_to_do())
    );
    assert_eq!(locks.show(&next.name).await.unwrap().token, Some(next.token));
}

/// Others learn the label, since when and for how long; not what would let them release it.
pub async fn who_waits_learns_the_holder_but_not_its_owner(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let first = Ask { label: Label::new("worker 3: \"ünïcode\"").unwrap(), ..ask("a", long()) };
    let got = granted(&*locks, &first).await;
    let busy = busy(&*locks, "a").await;
    assert_eq!((busy.label.as_str(), busy.since), ("worker 3: \"ünïcode\"", got.since));
    assert!(busy.left_ms <= long().ms() && busy.left_ms > 0);
    let shown = locks.show(&first.name).await.unwrap();
    assert_eq!(
        (shown.token, shown.held.as_ref().unwrap().label.as_str()),
        (Some(got.token), busy.label.as_str())
    );
    assert!(!format!("{busy:?}{shown:?}").contains(first.owner.as_str()));
    release(&*locks, &hold_of(&first, got)).await;
    let shown = locks.show(&first.name).await.unwrap();
    assert_eq!((shown.token, shown.held), (Some(got.token), None));
}

/// No two names are one lock, whatever is in them.
pub async fn names_are_compared_byte_by_byte(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let names = [
        "a",
        "A",
        "a ",
        " a",
        "ä",
        "a\u{308}",
        "{a}",
        "{a}b",
        "a{",
        "}",
        "{}",
        "a:b",
        "a/b",
        "a*",
        "a?",
        "[a]",
        "%61",
        "'; DROP",
        "\"",
        "\\",
        "日本",
        "\u{1f512}",
        "\u{202e}a",
        "-1",
        "0",
        "null",
    ];
    let mut held = Vec::new();
    for text in names {
        held.push(take(&*locks, text, long()).await);
    }
    for hold in &held {
        assert_eq!(locks.show(&hold.name).await.unwrap().token, Some(hold.token), "{}", hold.name);
        busy(&*locks, hold.name.as_str()).await;
        assert_eq!(release(&*locks, hold).await, Release::Released, "{}", hold.name);
    }
}

/// Every text may be as long as it is said to be.
pub async fn the_longest_values_fit(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let mut longest = ask(&"n".repeat(NAME_BYTES_MAX), ttl(crate::locks::TTL_MS_MAX));
    longest.owner = Owner::new("o".repeat(OWNER_BYTES_MAX)).unwrap();
    longest.label = Label::new("é".repeat(LABEL_BYTES_MAX / 2)).unwrap();
    let got = granted(&*locks, &longest).await;
    assert_eq!(got.left_ms, crate::locks::TTL_MS_MAX);
    let because = Because::abandon("日".repeat(REASON_BYTES_MAX / 3)).unwrap();
    assert_eq!(locks.release(&hold_of(&longest, got), &because).await.unwrap(), Release::Released);
    assert_eq!(locks.show(&longest.name).await.unwrap().last_release.unwrap().because, because);
}

/// A lease is not ended by the end of its backend.
pub async fn leases_outlive_their_backend(fixture: &mut impl LocksFixture) {
    let held = take(&*fixture.locks(), "a", long()).await;
    fixture.reopen().await;
    let locks = fixture.locks();
    busy(&*locks, "a").await;
    assert!(matches!(locks.renew(&held, long()).await.unwrap(), Renewal::Renewed { .. }));
    assert_eq!(release(&*locks, &held).await, Release::Released);
    drop(locks);
    fixture.reopen().await;
    let locks = fixture.locks();
    assert_eq!(release(&*locks, &held).await, Release::Released);
    assert!(take(&*locks, "a", long()).await.token > held.token);
}

/// What a lock is there to protect: it refuses tokens lower than the highest it saw.
#[derive(Default)]
struct Resource {
    highest: AtomicU64,
}

impl Resource {
    fn write(&self, token: u64) -> bool {
        self.highest.fetch_max(token, Ordering::SeqCst) <= token
    }
}

/// A holder that stood still past its lease notices at its next check, and its write is refused if it does not check.
pub async fn a_paused_holder_is_refused_by_its_token(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let resource = Resource::default();
    let lease = Lease::acquire(Arc::clone(&locks), &ask("a", short())).await.unwrap().unwrap();
    assert!(resource.write(lease.token()));
    // Its whole thread stands still, as in a long pause of the process.
    std::thread::sleep(Duration::from_millis(2 * TTL_MS_MIN));
    let next = take_when_free(&*locks, "a").await;
    assert!(resource.write(next.token));
    assert_eq!(lease.check(), Err(LeaseOver::Passed));
    assert_eq!(lease.renew_if_needed().await, Err(LeaseOver::Passed));
    assert!(!resource.write(lease.token()), "a late write was accepted");
    assert!(resource.write(next.token));
    assert_eq!(lease.release(&nothing_to_do()).await.unwrap(), Release::LeaseLost(Lost::Taken));
    assert_eq!(release(&*locks, &next).await, Release::Released);
}

/// Work that forgets to renew is dropped; it does not keep the lock, and nobody renews for it.
pub async fn work_is_stopped_when_its_lease_is_over(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let ended = hold(Arc::clone(&locks), &ask("a", short()), |_lease| {
        std::future::pending::<((), Option<Because>)>()
    })
    .await;
    assert!(matches!(ended, Err(HoldError::Over(LeaseOver::Passed))), "{ended:?}");
    take_when_free(&*locks, "a").await;
    // Who comes too late does not begin.
    let begun = AtomicBool::new(false);
    let busy = hold(locks, &ask("a", long()), async |_lease| {
        begun.store(true, Ordering::SeqCst);
        ((), None)
    })
    .await;
    assert!(matches!(busy, Err(HoldError::Busy(_))), "{busy:?}");
    assert!(!begun.load(Ordering::SeqCst));
}

/// Work that renews as it goes on may last longer than its lease.
pub async fn work_goes_on_as_long_as_it_renews(fixture: &mut impl LocksFixture) {
    const TTL_MS: u64 = 2_000;
    let locks = fixture.locks();
    let begun_ms = running_ms();
    let worked = hold(Arc::clone(&locks), &ask("a", ttl(TTL_MS)), async |lease| {
        while running_ms() < begun_ms + TTL_MS + TTL_MS / 4 {
            if let Err(over) = lease.renew_if_needed().await {
                return (Err(over), None);
            }
            sleep(Duration::from_millis(20)).await;
        }
        (lease.check(), Some(nothing_to_do()))
    })
    .await
    .unwrap();
    let token = worked.value.expect("the lease was renewed in time");
    assert!(matches!(worked.release, Some(Ok(Release::Released))), "{:?}", worked.release);
    assert!(take(&*locks, "a", long()).await.token > token);
}

/// A renewal that is refused ends the work at once, long before its time.
pub async fn work_is_stopped_when_its_lock_is_lost(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let other = Arc::clone(&locks);
    let went_on = AtomicBool::new(false);
    let ended = hold(locks, &ask("a", long()), async |lease| {
        release(&*other, lease.as_hold()).await;
        // What the renewal says is not looked at: the work is stopped nevertheless.
        let _ = lease.renew().await;
        tokio::task::yield_now().await;
        went_on.store(true, Ordering::SeqCst);
        ((), Some(nothing_to_do()))
    })
    .await;
    assert!(matches!(ended, Err(HoldError::Over(LeaseOver::Lost(Lost::Released)))), "{ended:?}");
    assert!(!went_on.load(Ordering::SeqCst), "the work went on without its lock");
}

/// What the work gave is given, whatever becomes of the release; without a reason nothing is released.
pub async fn a_failed_release_does_not_mask_the_work(fixture: &mut impl LocksFixture) {
    let locks = fixture.locks();
    let other = Arc::clone(&locks);
    let worked = hold(Arc::clone(&locks), &ask("a", long()), async |lease| {
        release(&*other, lease.as_hold()).await;
        take(&*other, "a", long()).await;
        (Err::<(), _>("the card was declined"), Some(nothing_to_do()))
    })
    .await
    .unwrap();
    assert_eq!(worked.value, Err("the card was declined"));
    assert!(matches!(worked.release, Some(Ok(Release::LeaseLost(Lost::Taken)))), "{:?}", worked.release);
    assert_eq!(locks.show(&name("a")).await.unwrap().last_release.unwrap().outcome, "lease_lost");

    let left = hold(Arc::clone(&locks), &ask("b", long()), async |_lease| (7, None)).await.unwrap();
    assert!(left.value == 7 && left.release.is_none());
    busy(&*locks, "b").await;
}
