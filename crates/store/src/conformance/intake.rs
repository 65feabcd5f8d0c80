//! Sagas that callers begin in transactions of their own: what waits is given once, and an id has one input.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use amends_core::{Entry, EntryKind, SagaId, Time, json};
use async_trait::async_trait;
use serde_json::Value;

use super::samples::*;
use crate::{Arrival, Backlog, Intake, Store, StoredEntry, Submission, Submitted, Verdict};

/// A program beside the engine, which has nothing but its own connection.
#[async_trait]
pub trait Caller: Send + Sync {
    /// Submits a saga in a transaction of its own, and commits.
    ///
    /// # Errors
    /// What the database says.
    async fn submit(&self, saga: &str, id: &str, input: &str) -> Result<(), String>;

    /// Whether the database's words name the id and the reason: not every one can raise other than fixed texts.
    fn names_what(&self) -> bool {
        true
    }

    /// Whether inputs are compared as trees inside the caller's transaction. Otherwise by their text, without regard to blanks.
    fn compares_trees(&self) -> bool {
        true
    }

    /// How deeply inputs may be nested. What is nested more deeply is refused.
    fn depth_max(&self) -> usize {
        json::DEPTH_MAX
    }

    /// Whether members of the same name are noticed inside the caller's transaction, and not only by the engine.
    fn notices_twins(&self) -> bool {
        true
    }
}

/// Makes a `#[tokio::test]` of every function on sagas that callers begin in transactions of their own. `$make` is an `async fn` that gives
/// a [`Fixture`](crate::conformance::Fixture) with an empty store, and a [`Caller`](crate::conformance::intake::Caller) beside it.
#[macro_export]
macro_rules! intake_suite {
    ($make:ident) => {
        $crate::intake_tests! { $make;
            intake {
            what_is_committed_is_given_once_in_order
            what_was_taken_and_not_settled_comes_back
            settling_twice_changes_nothing
            the_same_again_is_no_error_and_another_is
            equal_trees_are_the_same_and_numbers_are_text
            inputs_that_cannot_be_kept_are_refused
            ids_are_checked_and_kept_byte_by_byte
            a_saga_takes_its_row_with_it
            a_waiting_row_has_its_id
            a_saga_that_is_there_is_the_same_or_another
            what_is_put_off_is_tried_again
            what_is_refused_stays_for_a_person
            rows_are_taken_by_one_of_many
            }
        }
    };
}

/// Makes the tests that [`intake_suite!`] lists.
#[doc(hidden)]
#[macro_export]
macro_rules! intake_tests {
    ($make:ident; intake { $($name:ident)+ }) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let (fixture, caller) = $make().await;
                $crate::conformance::intake::$name(fixture.store(), caller).await;
            }
        )+
    };
}

/// A hold that does not end while a test runs.
const HOLD_MS: u64 = 3_600_000;

const INPUT: &str = r#"{"sku":"tea","qty":2}"#;

fn intake(store: &dyn Store) -> &dyn Intake {
    store.intake().expect("this store has an intake")
}

async fn take(store: &dyn Store, limit: usize) -> Vec<Arrival> {
    // What has just come may be of the next millisecond on the server's clock.
    intake(store).take(in_ms(60_000), HOLD_MS, limit).await.unwrap()
}

async fn waiting(store: &dyn Store) -> u64 {
    intake(store).backlog().await.unwrap().waiting
}

/// A submission as an engine makes it of this input.
fn made_of(text: &str, saga: &str, input: &str) -> Submission {
    let tree: Value = serde_json::from_str(input).unwrap();
    let fingerprint = json::fingerprint(saga, &tree);
    let kind = EntryKind::Submitted {
        id: id(text),
        digest: "d1".to_owned(),
        input: tree,
        claims: Vec::new(),
        deadline_at: None,
        accepting: true,
        trace: None,
        epoch: 1,
        who: "sql".to_owned(),
    };
    let entry = StoredEntry::encode(&Entry { seq: 1, at: Time(1_000), kind });
    let row = crate::Row { saga: saga.to_owned(), ..row(text) };
    Submission { fingerprint, entries: vec![entry], ..submission(row, &[]) }
}

/// Each is given with what its caller wrote, the first first, and no second time while it is held.
pub async fn what_is_committed_is_given_once_in_order(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    assert_eq!(intake(&*store).backlog().await.unwrap(), Backlog::default());
    for n in 1..=3 {
        caller.submit("order", &format!("order:{n}"), &format!("{{\"n\": {n}.50}}")).await.unwrap();
    }
    assert_eq!(waiting(&*store).await, 3);
    let first = take(&*store, 2).await;
    let ids: Vec<&str> = first.iter().map(|arrival| arrival.id.as_str()).collect();
    assert_eq!(ids, ["order:1", "order:2"]);
    let Arrival { number: _, saga, id: _, input, by, tries } = &first[1];
    assert_eq!((saga.as_str(), *tries), ("order", 0));
    assert!(!by.is_empty());
    let input: Value = serde_json::from_str(input).unwrap();
    assert_eq!(json::canonical(&input), r#"{"n":2.50}"#);
    assert_eq!(take(&*store, 10).await.len(), 1);
    assert_eq!(take(&*store, 10).await, []);
    assert_eq!(waiting(&*store).await, 3, "what is held waits");
}

/// As if the node that took it had been killed.
pub async fn what_was_taken_and_not_settled_comes_back(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    caller.submit("order", "order:1", INPUT).await.unwrap();
    let first = intake(&*store).take(in_ms(60_000), 0, 10).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(take(&*store, 10).await, first);
}

/// What is gone is gone; a row that comes in its place is another one.
pub async fn settling_twice_changes_nothing(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    caller.submit("order", "order:1", INPUT).await.unwrap();
    let number = take(&*store, 1).await.remove(0).number;
    for _ in 0..2 {
        intake(&*store).settle(now(), vec![(number, Verdict::Adopted)]).await.unwrap();
    }
    assert_eq!(waiting(&*store).await, 0);
    caller.submit("order", "order:1", INPUT).await.unwrap();
    for verdict in [Verdict::Adopted, Verdict::Refused { reason: "late".to_owned() }] {
        intake(&*store).settle(now(), vec![(number, verdict)]).await.unwrap();
    }
    let again = take(&*store, 1).await.remove(0);
    assert!(again.number > number, "{again:?} after {number}");
}

/// While the first one waits.
pub async fn the_same_again_is_no_error_and_another_is(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    caller.submit("order", "order:1", INPUT).await.unwrap();
    caller.submit("order", "order:1", INPUT).await.unwrap();
    for (saga, input) in [("order", r#"{"sku":"tea","qty":3}"#), ("refund", INPUT), ("order", "{}")] {
        let error = caller.submit(saga, "order:1", input).await.unwrap_err();
        assert!(!caller.names_what() || error.contains("order:1"), "{error}");
    }
    assert_eq!(take(&*store, 10).await.len(), 1);
}

/// Pairs of inputs that are equal trees, or are not.
pub async fn equal_trees_are_the_same_and_numbers_are_text(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    let same = [
        (r#"{"a":1,"b":[1,2,{"c":null}]}"#, " { \"b\" : [ 1 , 2 , { \"c\" : null } ] , \"a\" : 1 } "),
        (r#"{"a":"\u00e9\n/"}"#, r#"{"a":"é\u000a\/"}"#),
        (r#"{"\u0061":{"y":1,"x":{"q":1,"p":2}}}"#, r#"{"a":{"x":{"p":2,"q":1},"y":1}}"#),
        ("[true,false,null,\"\"]", "[ true, false, null, \"\" ]"),
        (r#""text""#, r#" "\u0074ext" "#),
        (r#"{"n":[12.50,-0.0,1e+5]}"#, r#"{ "n":[12.50,-0.0,1E5]}"#),
    ];
    let other = [
        ("[1,2]", "[2,1]"),
        (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
        (r#"{"a":"1"}"#, r#"{"a":1}"#),
        (r#"{"a":{}}"#, r#"{"a":[]}"#),
        (r#"{"a":[{"b":1},{"c":2}]}"#, r#"{"a":[{"b":1,"c":2}]}"#),
        (r#"{"a":{"b":1}}"#, r#"{"a":{},"b":1}"#),
        (r#"{"a":null}"#, "{}"),
        (r#"{"a":true}"#, r#"{"a":"true"}"#),
        (r#"{"a":"A"}"#, r#"{"a":"a"}"#),
        (r#"{"a":"x"}"#, r#"{"a":"x "}"#),
        (r#"{"a":9007199254740993}"#, r#"{"a":9007199254740992}"#),
    ];
    let texts = [
        ("[1.0]", "[1.00]"),
        ("[1]", "[1.0]"),
        ("[100]", "[1e2]"),
        (r#"{"a":123456789012345678901234567890}"#, r#"{"a":1.2345678901234567890123456789e29}"#),
    ];
    for (nth, (one, two)) in same.into_iter().enumerate() {
        let id = format!("same:{nth}");
        caller.submit("order", &id, one).await.unwrap();
        let spaced = format!(" {one}\n");
        caller.submit("order", &id, &spaced).await.unwrap_or_else(|e| panic!("{one}: {e}"));
        if caller.compares_trees() {
            caller.submit("order", &id, two).await.unwrap_or_else(|e| panic!("{one} and {two}: {e}"));
        }
    }
    for (nth, (one, two)) in other.into_iter().chain(texts).enumerate() {
        let id = format!("other:{nth}");
        caller.submit("order", &id, one).await.unwrap();
        assert!(caller.submit("order", &id, two).await.is_err(), "{one} and {two}");
        assert!(caller.submit("order", &id, one).await.is_ok(), "{one}");
    }
    assert!(waiting(&*store).await > 16);
}

/// Inside the caller's transaction: nothing waits that no engine could read.
pub async fn inputs_that_cannot_be_kept_are_refused(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let wrong = [
        "",
        "{",
        "{'a':1}",
        "[1,]",
        "01",
        "NaN",
        &nested(caller.depth_max() + 1),
        r#"{"$serde_json::private::Number":"1"}"#,
        &format!("\"{}\"", "x".repeat(1 << 20)),
    ];
    for (nth, input) in wrong.into_iter().enumerate() {
        let start: String = input.chars().take(40).collect();
        assert!(caller.submit("order", &format!("order:{nth}"), input).await.is_err(), "{start}");
    }
    let twins = [r#"{"a":1,"a":1}"#, r#"{"b":[{"a":1,"\u0061":2}]}"#];
    for input in twins.into_iter().filter(|_| caller.notices_twins()) {
        assert!(caller.submit("order", "order:t", input).await.is_err(), "{input}");
    }
    for saga in ["", "Order", "1st", "a b", &"x".repeat(65)] {
        assert!(caller.submit(saga, "order:0", "{}").await.is_err(), "{saga}");
    }
    assert_eq!(waiting(&*store).await, 0);
    caller.submit(&"x".repeat(64), "order:0", &nested(caller.depth_max())).await.unwrap();
}

/// No case, no blanks, no quotes and no forms of letters are folded, and what is no id is refused.
pub async fn ids_are_checked_and_kept_byte_by_byte(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    let longest = "é".repeat(128);
    let good = [
        "key",
        "Key",
        "key ",
        " key",
        "k'y",
        "'; DROP TABLE x; --",
        "\"k\"",
        "k\\y",
        "ké",
        "ke\u{301}",
        "🔑",
        "k%",
        "k_y",
        "\u{202e}rtl",
        &longest,
    ];
    for (nth, text) in good.into_iter().enumerate() {
        caller.submit("order", text, &format!("[{nth}]")).await.unwrap_or_else(|e| panic!("{text:?}: {e}"));
    }
    for text in [
        "",
        "a\u{1}b",
        "tab\t",
        "line\n",
        "del\u{7f}",
        "next\u{85}",
        &"x".repeat(257),
        &format!("{longest}x"),
    ] {
        assert!(caller.submit("order", text, "{}").await.is_err(), "{text:?}");
    }
    let found: Vec<String> = take(&*store, 100).await.into_iter().map(|arrival| arrival.id).collect();
    assert_eq!(found, good);
    assert!(found.into_iter().all(|text| SagaId::new(text).is_ok()));
}

/// In one transaction: a crash leaves both or neither.
pub async fn a_saga_takes_its_row_with_it(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    for text in ["order:1", "order:2"] {
        caller.submit("order", text, INPUT).await.unwrap();
    }
    let made = submit(&*store, made_of("order:1", "order", r#"{"qty":2,"sku":"tea"}"#)).await;
    assert!(matches!(made, Submitted::Created(_)), "{made:?}");
    let left = take(&*store, 10).await;
    assert_eq!(left.iter().map(|arrival| arrival.id.as_str()).collect::<Vec<_>>(), ["order:2"]);
}

/// Its caller was told first that the id is theirs.
pub async fn a_waiting_row_has_its_id(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    caller.submit("order", "order:1", INPUT).await.unwrap();
    for other in [made_of("order:1", "order", "{}"), made_of("order:1", "refund", INPUT)] {
        assert_eq!(submit(&*store, other).await, Submitted::Different);
    }
    assert_eq!(store.load(&id("order:1")).await.unwrap(), None);
    let number = take(&*store, 1).await.remove(0).number;
    let refused = Verdict::Refused { reason: "it is a test".to_owned() };
    intake(&*store).settle(now(), vec![(number, refused)]).await.unwrap();
    assert!(matches!(submit(&*store, made_of("order:1", "order", "{}")).await, Submitted::Created(_)));
}

/// Told inside the caller's transaction, where the journal is still there; nothing of it waits.
pub async fn a_saga_that_is_there_is_the_same_or_another(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    create(&*store, made_of("order:1", "order", INPUT)).await;
    // In the order in which it is kept.
    caller.submit("order", "order:1", r#"{ "qty": 2, "sku": "tea" }"#).await.unwrap();
    assert_eq!(waiting(&*store).await, 0);
    if caller.compares_trees() {
        caller.submit("order", "order:1", r#"{ "sku": "tea", "qty": 2 }"#).await.unwrap();
        assert_eq!(waiting(&*store).await, 0);
    }
    for (saga, input) in [("order", "{}"), ("refund", INPUT), ("order", r#"{"sku":"tea","qty":2,"x":null}"#)]
    {
        let error = caller.submit(saga, "order:1", input).await.unwrap_err();
        assert!(!caller.names_what() || error.contains("order:1"), "{error}");
    }
    assert_eq!(waiting(&*store).await, 0);
}

/// After its pause, or when somebody says so; the reason is shown.
pub async fn what_is_put_off_is_tried_again(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    for (saga, text) in [("order", "order:1"), ("refund", "refund:1"), ("order", "order:2")] {
        caller.submit(saga, text, INPUT).await.unwrap();
    }
    let taken = take(&*store, 10).await;
    let put_off = |again_ms| Verdict::PutOff { reason: "no definition".to_owned(), again_ms };
    let verdicts = vec![
        (taken[0].number, put_off(HOLD_MS)),
        (taken[1].number, put_off(HOLD_MS)),
        (taken[2].number, put_off(0)),
    ];
    intake(&*store).settle(now(), verdicts).await.unwrap();
    let backlog = intake(&*store).backlog().await.unwrap();
    assert_eq!((backlog.waiting, backlog.put_off, backlog.refused), (3, 3, 0));
    assert_eq!(backlog.example, Some(("order:1".to_owned(), "no definition".to_owned())));
    tokio::time::sleep(Duration::from_millis(5)).await;
    let soon = take(&*store, 10).await;
    assert_eq!(soon.iter().map(|a| (a.id.as_str(), a.tries)).collect::<Vec<_>>(), [("order:2", 1)]);
    intake(&*store).settle(now(), vec![(soon[0].number, put_off(HOLD_MS))]).await.unwrap();

    intake(&*store).retry(now(), "order").await.unwrap();
    let tries: BTreeSet<_> = take(&*store, 10).await.into_iter().map(|a| (a.id, a.tries)).collect();
    assert_eq!(tries, [("order:1".to_owned(), 1), ("order:2".to_owned(), 2)].into());
}

/// It is shown first, never tried again, and its caller is told when it comes again.
pub async fn what_is_refused_stays_for_a_person(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    for text in ["order:1", "order:2"] {
        caller.submit("order", text, INPUT).await.unwrap();
    }
    let taken = take(&*store, 10).await;
    let verdicts = vec![
        (taken[0].number, Verdict::PutOff { reason: "later".to_owned(), again_ms: HOLD_MS }),
        (taken[1].number, Verdict::Refused { reason: "it is another's".to_owned() }),
    ];
    intake(&*store).settle(now(), verdicts).await.unwrap();
    let backlog = intake(&*store).backlog().await.unwrap();
    assert_eq!((backlog.waiting, backlog.put_off, backlog.refused), (1, 1, 1));
    assert_eq!(backlog.example, Some(("order:2".to_owned(), "it is another's".to_owned())));
    intake(&*store).retry(now(), "order").await.unwrap();
    let again: Vec<String> = take(&*store, 10).await.into_iter().map(|arrival| arrival.id).collect();
    assert_eq!(again, ["order:1"]);
    let error = caller.submit("order", "order:2", INPUT).await.unwrap_err();
    assert!(!caller.names_what() || error.contains("it is another's"), "{error}");
    // It keeps nobody from the saga that has the id.
    create(&*store, made_of("order:2", "order", r#"{"sku":"salt"}"#)).await;
    caller.submit("order", "order:2", r#"{ "sku": "salt" }"#).await.unwrap();
    caller.submit("order", "order:2", INPUT).await.unwrap_err();
    assert_eq!(intake(&*store).backlog().await.unwrap().refused, 1);
}

/// Nodes share the work.
pub async fn rows_are_taken_by_one_of_many(store: Arc<dyn Store>, caller: Arc<dyn Caller>) {
    const COUNT: usize = 60;
    for nth in 0..COUNT {
        caller.submit("order", &format!("order:{nth}"), "{}").await.unwrap();
    }
    let nodes: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut all = Vec::new();
                loop {
                    match take(&*store, 7).await {
                        taken if taken.is_empty() => return all,
                        taken => all.extend(taken.into_iter().map(|arrival| arrival.number)),
                    }
                }
            })
        })
        .collect();
    let mut taken = Vec::new();
    for node in nodes {
        taken.extend(node.await.unwrap());
    }
    let distinct: BTreeSet<u64> = taken.iter().copied().collect();
    assert_eq!(
        (taken.len(), distinct.len()),
        (COUNT, COUNT),
        "what is passed over by one is taken by another"
    );
}
