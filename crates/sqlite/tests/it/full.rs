//! Disks that are full, or fail: nothing acknowledged is lost, and everybody is told why.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use amends_sqlite::{Options, SqliteStore};
use amends_store::conformance::samples::advance;
use amends_store::conformance::samples::{commit, create, id, join, load, row, step, submission};
use amends_store::{
    Advanced, Error, Health as _, Item, Journal as _, Kind, Mailbox as _, Outcome, StoredEntry, Submission,
    Submitted,
};

use crate::child;

/// Large enough to fill a small disk soon.
const BODY_BYTES: usize = 20_000;

fn large(text: &str) -> Item {
    let entry = StoredEntry { seq: 1, at: Default::default(), keep: false, body: vec![b'x'; BODY_BYTES] };
    Item::Submit(Submission { entries: vec![entry], ..submission(row(text), &[]) })
}

/// Submits until the store fails; gives what it acknowledged, and the error.
async fn fill(store: &SqliteStore) -> (Vec<String>, Error) {
    let mut acknowledged = Vec::new();
    for nth in 0..100_000 {
        let text = format!("order:{nth}");
        match commit(store, large(&text)).await {
            Outcome::Submitted(Submitted::Created(_)) => acknowledged.push(text),
            Outcome::Failed(error) => return (acknowledged, error),
            other @ (Outcome::Submitted(_) | Outcome::Advanced(_)) => panic!("{other:?}"),
        }
    }
    panic!("the disk was never full");
}

async fn all_are_there(store: &SqliteStore, acknowledged: &[String]) {
    assert!(acknowledged.len() > 5, "only {acknowledged:?}");
    for text in acknowledged {
        assert_eq!(load(store, text).await.entries[0].body.len(), BODY_BYTES, "{text}");
    }
}

/// Nothing more is written, whoever asks, and reads go on.
async fn it_has_stopped(store: &SqliteStore, acknowledged: &[String], kind: Kind, words: &str) {
    let is_told = |error: Error| {
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(words) && error.message.contains("amends.db"), "{error}");
    };
    is_told(store.health().unwrap_err());
    is_told(store.post(&id(&acknowledged[0]), "m1", b"", Default::default()).await.unwrap_err());
    for item in [large("after"), Item::Advance(advance(&acknowledged[0], 1, 1, 1))] {
        match commit(store, item).await {
            Outcome::Failed(error) => is_told(error),
            other @ (Outcome::Submitted(_) | Outcome::Advanced(_)) => panic!("{other:?}"),
        }
    }
    all_are_there(store, acknowledged).await;
}

#[tokio::test]
async fn a_limit_of_pages_stops_the_store_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("amends.db");
    let limited = Options { page_max: Some(300), ..Options::default() };
    let store = SqliteStore::open(&path, limited).unwrap();
    let (acknowledged, error) = fill(&store).await;
    assert_eq!(error.kind, Kind::Unwritable, "{error}");
    it_has_stopped(&store, &acknowledged, Kind::Unwritable, "free space").await;
    drop(store);

    let store = SqliteStore::open(&path, Options::default()).unwrap();
    all_are_there(&store, &acknowledged).await;
    create(&store, submission(row("after"), &[])).await;
}

/// A filesystem of a few megabytes, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where this user may not mount one.
    fn mount(at: &Path) -> Option<Self> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

#[tokio::test]
async fn a_full_disk_stops_the_store_until_it_has_room_again() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path()) else {
        use std::io::Write as _;
        // The limit of pages, above, is what can be tested then.
        writeln!(std::io::stderr(), "skipped: this user may not mount a small disk").unwrap();
        return;
    };
    let path = disk.0.join("amends.db");
    let filler = disk.0.join("filler");
    std::fs::write(&filler, vec![0; 3 << 20]).unwrap();
    let options = Options { probe_interval: Duration::from_millis(20), ..Options::default() };
    let store = SqliteStore::open(&path, options.clone()).unwrap();
    let (acknowledged, error) = fill(&store).await;
    assert_eq!(error.kind, Kind::Unwritable, "{error}");
    it_has_stopped(&store, &acknowledged, Kind::Unwritable, "free space").await;

    File::create(&filler).unwrap().set_len(0).unwrap();
    while store.health().is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let rowid = create(&store, submission(row("after"), &[])).await;
    assert_eq!(step(&store, advance("after", rowid, 1, 1)).await, Advanced::Committed);
    all_are_there(&store, &acknowledged).await;
    drop(store);
    let store = SqliteStore::open(&path, options).unwrap();
    all_are_there(&store, &acknowledged).await;
    assert_eq!(load(&store, "after").await.entries.len(), 2);
}

/// A limit on the size of files makes writes fail, as a failing disk does: not "full", but an error of I/O.
#[tokio::test]
async fn a_failing_disk_stops_the_store_until_a_restart_and_loses_nothing() {
    if let Some(folder) = child::folder() {
        let store = SqliteStore::open(folder.join("amends.db"), Options::default()).unwrap();
        join(&store, "n1").await;
        let (acknowledged, error) = fill(&store).await;
        // Cut off at its commit, it may be there after a restart; reads of this process cannot tell.
        assert_eq!(error.kind, Kind::Indeterminate, "{error}");
        it_has_stopped(&store, &acknowledged, Kind::Unwritable, "restart").await;
        let next = id(&format!("order:{}", acknowledged.len()));
        assert_eq!(store.wrote(&next, 1, 1).await.unwrap_err().kind, Kind::Unwritable);
        std::fs::write(folder.join("acknowledged"), acknowledged.join("\n")).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let test = "full::a_failing_disk_stops_the_store_until_a_restart_and_loses_nothing";
    // Blocks are of 512 or 1,024 bytes; without the trap the signal would end the process at once.
    let script = "trap '' XFSZ; ulimit -f 1500; exec \"$0\" \"$@\"";
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(script).arg(child::program());
    child::run(&mut limited, test, folder.path());
    let output = limited.output().unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );

    let acknowledged = std::fs::read_to_string(folder.path().join("acknowledged")).unwrap();
    let acknowledged: Vec<String> = acknowledged.lines().map(str::to_owned).collect();
    let store = SqliteStore::open(folder.path().join("amends.db"), Options::default()).unwrap();
    all_are_there(&store, &acknowledged).await;
    let next = format!("order:{}", acknowledged.len());
    assert!(store.wrote(&id(&next), 1, 1).await.unwrap() != Some(false));
    create(&store, submission(row("after"), &[])).await;
}
