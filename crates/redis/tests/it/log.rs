//! The compensation log: each of its rules, on real servers.

use std::time::Duration;

use amends_redis::{
    Answer, Begin, Begun, BusinessId, Commands, Commit, Compensate, ErrorKind, Guard, Intent, Log, Options,
    Reason, Status, Which,
};
use amends_testbed::redis::{Cluster, Redis};

pub(crate) async fn log(url: &str) -> Log {
    Log::connect(url, Options::default()).await.unwrap()
}

pub(crate) fn id(text: &str) -> BusinessId {
    BusinessId::new(text).unwrap()
}

pub(crate) fn commands(texts: &[&str]) -> Commands {
    Commands::parse(texts.iter().copied()).unwrap()
}

pub(crate) fn guards(texts: &[&str]) -> Vec<Guard> {
    texts.iter().map(|text| Guard::parse(text.as_bytes()).unwrap()).collect()
}

/// Takes 100 off an account, and gives it back.
pub(crate) fn take_100(account: &str) -> Intent {
    Intent::new(commands(&[&format!("HINCRBY {account} amount 100")]))
        .forward(commands(&[&format!("HINCRBY {account} amount -100")]))
        .forward_guard(guards(&[&format!("MIN {account} amount 100")]))
}

#[track_caller]
pub(crate) fn begun(begin: Begin) -> Begun {
    match begin {
        Begin::Begun(begun) => begun,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(outcome: &Compensate) -> Reason {
    match outcome {
        Compensate::Refused(refusal) => refusal.reason,
        other => panic!("{other:?}"),
    }
}

/// What a record goes through, on whatever server: once committed, once undone, each call twice.
async fn story(log: &Log, server: &dyn Fn(&[&str]) -> String, tag: &str) {
    let account = format!("balance:{tag}");
    server(&["HSET", &account, "amount", "250"]);
    let amount = || server(&["HGET", &account, "amount"]);

    let first = id(&format!("order:1:{tag}"));
    let answer = begun(log.begin(&first, &take_100(&account)).await.unwrap());
    assert_eq!(
        (answer.status.clone(), answer.answers.clone()),
        (Status::Pending, vec![Answer::Integer(150)])
    );
    assert_eq!(answer.expire_at, answer.created_at + 300 + 86_400);
    assert_eq!(begun(log.begin(&first, &take_100(&account)).await.unwrap()), answer, "the same call again");
    assert_eq!(amount(), "150");
    let other = take_100(&account).within(Duration::from_secs(1));
    assert_eq!(log.begin(&first, &other).await.unwrap(), Begin::Different);

    let committed = log.commit(&first).await.unwrap();
    assert!(matches!(committed, Commit::Committed { .. }), "{committed:?}");
    assert_eq!(log.commit(&first).await.unwrap(), committed);
    assert!(matches!(log.compensate(&first).await.unwrap(), Compensate::Committed { .. }));
    assert_eq!(begun(log.begin(&first, &take_100(&account)).await.unwrap()).status, Status::Committed);
    assert_eq!(amount(), "150");

    let second = id(&format!("order:2:{tag}"));
    begun(log.begin(&second, &take_100(&account)).await.unwrap());
    assert_eq!(amount(), "50");
    let undone = log.compensate(&second).await.unwrap();
    let Compensate::Compensated { answers, .. } = &undone else { panic!("{undone:?}") };
    assert_eq!(answers, &[Answer::Integer(150)]);
    assert_eq!(log.compensate(&second).await.unwrap(), undone);
    assert!(matches!(log.commit(&second).await.unwrap(), Commit::Compensated { .. }));
    assert_eq!(amount(), "150");

    // Not enough for two more: the second is refused, and leaves nothing.
    begun(log.begin(&id(&format!("order:3:{tag}")), &take_100(&account)).await.unwrap());
    let fourth = id(&format!("order:4:{tag}"));
    let Begin::Refused(refusal) = log.begin(&fourth, &take_100(&account)).await.unwrap() else { panic!() };
    assert_eq!(refusal.reason, Reason::Guard);
    assert_eq!((log.show(&fourth).await.unwrap(), amount().as_str()), (None, "50"));
    assert_eq!(log.commit(&fourth).await.unwrap(), Commit::Absent);
    assert_eq!(log.compensate(&fourth).await.unwrap(), Compensate::Absent);

    let pending: Vec<_> =
        log.list(Which::Pending, 10).await.unwrap().into_iter().map(|l| l.id.to_string()).collect();
    assert_eq!(pending, [format!("order:3:{tag}")]);
    assert_eq!(log.list(Which::Settled, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_record_is_committed_or_undone_and_every_call_may_be_made_again() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    story(&log, &|command| server.ask(command).unwrap(), "1001").await;
}

#[tokio::test]
async fn the_same_holds_where_functions_are_not_permitted() {
    let server = Redis::start().unwrap();
    server.ask(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-function", "-fcall"]).unwrap();
    let log = log(&format!("redis://app:pw@127.0.0.1:{}", server.port())).await;
    assert!(log.client().sends_scripts());
    story(&log, &|command| server.ask(command).unwrap(), "1001").await;
    server.ask(&["SCRIPT", "FLUSH"]).unwrap();
    let again = log.begin(&id("order:3:1001"), &take_100("balance:1001")).await.unwrap();
    assert_eq!(begun(again).answers, [Answer::Integer(50)]);
}

#[tokio::test]
async fn the_same_holds_in_a_cluster_where_keys_share_a_tag() {
    let cluster = Cluster::start().unwrap();
    let log = log(&cluster.url()).await;
    let ask = |command: &[&str]| {
        cluster.nodes().iter().find_map(|node| node.ask(command).ok()).expect("one node has the slot")
    };
    story(&log, &ask, "{1001}").await;

    // The record is where its own key says; the account is elsewhere: nothing is sent.
    let crossed = log.begin(&id("order:9"), &take_100("balance:{1001}")).await.unwrap_err();
    assert_eq!(crossed.kind, ErrorKind::CrossSlot);
    assert!(crossed.message.contains("hash tag"), "{crossed}");
    let rollback = commands(&["DEL a:{1001}", "DEL b:{1002}"]);
    let crossed = log.begin(&id("order:9:{1001}"), &Intent::new(rollback)).await.unwrap_err();
    assert_eq!(crossed.kind, ErrorKind::CrossSlot);
    assert_eq!(
        (log.show(&id("order:9")).await.unwrap(), log.show(&id("order:9:{1001}")).await.unwrap()),
        (None, None)
    );
    assert_eq!(ask(&["HGET", "balance:{1001}", "amount"]), "50");
}

#[tokio::test]
async fn a_rollback_that_cannot_run_changes_nothing_and_says_why() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    let order = id("order:789");
    let rollback = commands(&["RPUSH audit undone", "HINCRBY balance:1 amount 100"]);
    let intent = Intent::new(rollback).rollback_guard(guards(&["EQ balance:1 state OPEN"]));
    begun(log.begin(&order, &intent).await.unwrap());

    assert_eq!(refused(&log.compensate(&order).await.unwrap()), Reason::Guard);
    server.ask(&["SET", "balance:1", "x"]).unwrap();
    assert_eq!(refused(&log.compensate(&order).await.unwrap()), Reason::WrongType);
    server.ask(&["DEL", "balance:1"]).unwrap();
    server.ask(&["HSET", "balance:1", "state", "OPEN", "amount", "much"]).unwrap();
    assert_eq!(refused(&log.compensate(&order).await.unwrap()), Reason::NotInteger);
    server.ask(&["HSET", "balance:1", "amount", "9223372036854775800"]).unwrap();
    assert_eq!(refused(&log.compensate(&order).await.unwrap()), Reason::Overflow);
    assert_eq!(server.ask(&["EXISTS", "audit"]).unwrap(), "0");
    assert_eq!(log.show(&order).await.unwrap().unwrap().status, Status::Pending);

    server.ask(&["HSET", "balance:1", "amount", "1"]).unwrap();
    assert!(matches!(log.compensate(&order).await.unwrap(), Compensate::Compensated { .. }));
    assert_eq!(server.ask(&["HGET", "balance:1", "amount"]).unwrap(), "101");
    assert_eq!(server.ask(&["LLEN", "audit"]).unwrap(), "1");
}

#[tokio::test]
async fn ids_and_values_may_be_any_bytes() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    let value: Vec<u8> = (0..=255).collect();
    let words = vec![b"HSET".to_vec(), b"k \r\n\0{".to_vec(), b" field\" '".to_vec(), value.clone()];
    let rollback = Commands::check(vec![words]).unwrap();
    let long = "x".repeat(512);
    let ids: Vec<Vec<u8>> =
        ["a b", "{}", "}{", "{a}{b}", "line\nline\r\n", "nul\0nul", "*?[a]", "compensate_log:", "é", &long]
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .chain([vec![255, 254, 0, 10]])
            .collect();
    for raw in &ids {
        let order = BusinessId::new(raw.clone()).unwrap();
        begun(log.begin(&order, &Intent::new(rollback.clone())).await.unwrap());
        let record = log.show(&order).await.unwrap().unwrap();
        assert_eq!((record.rollback, record.id.as_bytes()), (rollback.clone(), raw.as_slice()));
    }
    let mut listed: Vec<_> =
        log.list(Which::Pending, 100).await.unwrap().into_iter().map(|l| l.id.as_bytes().to_vec()).collect();
    listed.sort();
    let mut expected = ids.clone();
    expected.sort();
    assert_eq!(listed, expected);
    for raw in &ids {
        let outcome = log.compensate(&BusinessId::new(raw.clone()).unwrap()).await.unwrap();
        assert!(matches!(outcome, Compensate::Compensated { .. }), "{outcome:?}");
    }
    let mut get = redis::cmd("HGET");
    get.arg(b"k \r\n\0{").arg(b" field\" '");
    assert_eq!(log.client().command(get).await.unwrap(), redis::Value::BulkString(value));
    for wrong in [String::new(), "x".repeat(513)] {
        assert_eq!(BusinessId::new(wrong).unwrap_err().kind, ErrorKind::Refused);
    }
}

#[tokio::test]
async fn what_is_no_whitelisted_command_or_no_key_of_its_own_is_refused_before_anything_is_written() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    for key in ["compensate_log:other", "compensate_due", "compensate_parked:{3}", "compensate_settled"] {
        let refused =
            log.begin(&id("o"), &Intent::new(commands(&[&format!("DEL {key}")]))).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Refused, "{refused}");
    }
    let empty = log.begin(&id("o"), &Intent::new(Commands::default())).await.unwrap_err();
    assert!(empty.message.contains("at least one command"), "{empty}");
    // Other languages call the functions with what they like.
    let call = |arguments: &[&str]| {
        let mut all = vec![
            "FCALL",
            "amends_log_begin_v1",
            "5",
            "compensate_log:o",
            "compensate_due",
            "compensate_parked",
        ];
        all.extend(["compensate_settled", "k"]);
        all.extend(arguments);
        server.ask(&all).map_err(|e| e.to_string())
    };
    for (arguments, said) in [
        (&["1000", "0", "0", "0", "1", "1", "FLUSHALL"][..], "not one of the commands allowed"),
        (&["1000", "0", "0", "0", "1", "2", "DEL", "l"], "not among the keys"),
        (&["1000", "0", "1", "2", "DEL", "l", "0", "1", "2", "DEL", "k"], "not among the keys"),
        (&["1000", "0", "0", "0", "1", "9", "DEL", "k"], "number of arguments"),
        (&["1000", "0", "0", "0", "1", "2", "DEL", "k", "more"], "behind the rollback"),
        (&["0", "0", "0", "0", "1", "2", "DEL", "k"], "time-out"),
        (&["1000", "0", "0", "1", "2", "LESS", "k", "1", "2", "DEL", "k"], "none of EQ, MIN"),
    ] {
        let answer = call(arguments).unwrap_err();
        assert!(answer.contains(said), "{arguments:?}: {answer}");
    }
    assert_eq!(server.ask(&["DBSIZE"]).unwrap(), "0");
    assert!(call(&["1000", "0", "0", "0", "1", "2", "DEL", "k"]).unwrap().starts_with("begun\npending\n"));
    server.ask(&["SET", "compensate_log:s", "x"]).unwrap();
    let taken = log.begin(&id("s"), &take_100("b")).await.unwrap_err();
    assert!(taken.message.contains("another program"), "{taken}");
}

#[tokio::test]
async fn a_user_without_the_right_for_one_command_gets_nothing_done() {
    let server = Redis::start().unwrap();
    for (user, lacks) in [("one", "-hincrby"), ("two", "-zrem"), ("three", "-pexpire")] {
        server.ask(&["ACL", "SETUSER", user, "on", ">pw", "~*", "+@all", lacks]).unwrap();
        let log = log(&format!("redis://{user}:pw@127.0.0.1:{}", server.port())).await;
        let intent = Intent::new(commands(&["DEL a"])).forward(commands(&["SET a 1", "HINCRBY h f 1"]));
        match log.begin(&id("o"), &intent).await {
            Ok(Begin::Refused(refusal)) => assert_eq!(refusal.reason, Reason::NotPermitted),
            Ok(other) => panic!("{other:?}"),
            Err(e) => assert!(e.message.contains("may not call"), "{e}"),
        }
        assert_eq!(server.ask(&["DBSIZE"]).unwrap(), "0");
    }
}

#[tokio::test]
async fn a_pending_record_has_no_time_to_live_and_a_settled_one_has() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    begun(log.begin(&id("o"), &Intent::new(commands(&["DEL a"]))).await.unwrap());
    assert_eq!(server.ask(&["TTL", "compensate_log:o"]).unwrap(), "-1");
    log.commit(&id("o")).await.unwrap();
    assert!(server.ask(&["TTL", "compensate_log:o"]).unwrap().parse::<i64>().unwrap() > 29 * 86_400);
}
