//! Killed at any moment, and started again on the same file.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use amends::{Amends, Call, Failure, Idempotency, Outcome, Saga, Step};

use crate::support::{Killed, Order, Seen, file, quick};

const FOLDER: &str = "AMENDS_TEST_CRASH_FOLDER";

/// Effects, one a file: it is there or it is not, whoever was killed.
#[derive(Clone)]
struct Ledger(PathBuf);

impl Ledger {
    /// Books an effect under its key, once.
    fn book(&self, key: &str) {
        let file = self.0.join(key.replace(':', "_"));
        match OpenOptions::new().write(true).create_new(true).open(file) {
            Ok(mut file) => file.write_all(b"x").unwrap(),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists),
        }
    }

    fn has(&self, key: &str) -> bool {
        self.0.join(key.replace(':', "_")).exists()
    }
}

fn saga(folder: &Path, hangs_at: Option<&'static str>) -> Saga<Order> {
    let ledger = Ledger(folder.to_owned());
    let act = |name: &'static str| {
        let ledger = ledger.clone();
        move |call: Call, _: Order| {
            ledger.book(call.key());
            async move {
                if hangs_at == Some(name) {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Failure>(call.attempt())
            }
        }
    };
    let undo = || {
        let ledger = ledger.clone();
        move |call: Call, _: Order, _: u32| {
            ledger.book(call.key());
            async { Ok(()) }
        }
    };
    let step = |name: &'static str| {
        Step::new(name)
            .action(act(name))
            .compensation(undo())
            .idempotency(Idempotency::Replay)
            .timeout(Duration::from_secs(60))
    };
    Saga::builder("order", 1).step(step("reserve")).step(step("charge")).step(step("ship")).build().unwrap()
}

fn url(folder: &Path) -> String {
    format!("sqlite://{}/orders.db", folder.display())
}

/// Not a test of its own: the process that the next test kills.
#[tokio::test]
async fn process_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let saga = saga(&folder, Some("charge"));
    let amends = Amends::builder(url(&folder)).saga(&saga).start().await.unwrap();
    let handle = amends.submit(&saga, "order:1", &Order::of("A-1", 1)).await.unwrap();
    let _ = handle.outcome().await.unwrap();
    panic!("it was to be killed in the middle");
}

#[tokio::test]
async fn a_killed_process_is_taken_up_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger(folder.path().to_owned());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::process_that_is_killed"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let Killed(child) = &mut Killed(child);
    while !ledger.has("order:1:charge:action") {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!ledger.has("order:1:ship:action"));

    let saga = saga(folder.path(), None);
    let amends = Amends::builder(url(folder.path())).saga(&saga).tune(quick).start().await.unwrap();
    let handle = amends.handle(&saga, "order:1").unwrap();
    let Outcome::Completed(facts) = handle.outcome().await.unwrap() else { panic!() };
    assert_eq!(facts.get::<u32>("reserve").unwrap(), 1, "what was done is not done again");
    assert_eq!(facts.get::<u32>("charge").unwrap(), 2, "what may have been done is, under the same key");
    assert!(ledger.has("order:1:ship:action") && !ledger.has("order:1:reserve:compensation"));
}

#[tokio::test]
async fn an_engine_that_is_dropped_in_the_middle_ends_as_in_a_crash() {
    let (_folder, url) = file();
    let seen = Seen::default();
    let begin = |hangs: bool| {
        let seen = seen.clone();
        let step = Step::new("act").action(move |call: Call, ()| {
            seen.note(format!("act {}", call.attempt()));
            let alive = TellsEnd(seen.clone());
            async move {
                let _alive = alive;
                if hangs {
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        });
        let step = step.compensation(|_: Call, (), ()| async { Ok(()) }).timeout(Duration::from_secs(60));
        Saga::<()>::builder("one", 1).step(step).build().unwrap()
    };
    let hanging = begin(true);
    let amends = Amends::builder(&url).saga(&hanging).start().await.unwrap();
    let handle = amends.submit(&hanging, "one:1", &()).await.unwrap();
    seen.until("act 1").await;
    drop((handle, amends));
    seen.until("dropped").await;

    let saga = begin(false);
    let amends = reopened(&url, &saga).await;
    let handle = amends.handle(&saga, "one:1").unwrap();
    let Outcome::Unknown { .. } = handle.outcome().await.unwrap() else {
        panic!("its idempotency is `none`")
    };
    assert_eq!(seen.all(), ["act 1", "dropped"]);
}

struct TellsEnd(Seen);

impl Drop for TellsEnd {
    fn drop(&mut self) {
        self.0.note("dropped");
    }
}

/// Opens the file again: the store of the dropped engine is closed by tasks that are only just ending.
async fn reopened(url: &str, saga: &Saga<()>) -> Amends {
    loop {
        match Amends::builder(url).saga(saga).tune(quick).start().await {
            Ok(amends) => return amends,
            Err(amends::StartError::Store(error)) if error.kind == amends_store::Kind::Refused => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}
