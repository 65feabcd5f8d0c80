//! The compensation log when things go wrong: races, flushes, no memory, a server that is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use amends_redis::{Answer, Begin, Commit, Compensate, ErrorKind, Intent, Log, ScanOptions, Scanner, Status};
use amends_testbed::redis::Redis;

use crate::log::{begun, commands, id, log, take_100};

/// What one of fifty callers did to a record.
#[derive(Debug, PartialEq)]
enum Did {
    Committed(u64),
    Compensated(u64),
    Scanned,
}

#[tokio::test]
async fn fifty_callers_race_commit_compensate_and_the_scanner_and_there_is_one_effect() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    let (mut committed, mut compensated) = (0, 0);
    for round in 0..24 {
        let account = format!("balance:{round}");
        server.ask(&["HSET", &account, "amount", "100"]).unwrap();
        let order = id(&format!("order:{round}"));
        begun(log.begin(&order, &take_100(&account).within(Duration::from_millis(1))).await.unwrap());
        tokio::time::sleep(Duration::from_millis(2)).await;
        let callers: Vec<_> = (0..50)
            .map(|n| {
                let (log, order) = (log.clone(), order.clone());
                tokio::spawn(async move {
                    match (n + round) % 3 {
                        0 => {
                            // An undo looks at the record first: give it a start in some rounds.
                            tokio::time::sleep(Duration::from_millis(round % 6 * 2)).await;
                            match log.commit(&order).await.unwrap() {
                                Commit::Committed { at } => Did::Committed(at),
                                Commit::Compensated { at } => Did::Compensated(at),
                                other => panic!("{other:?}"),
                            }
                        }
                        1 => match log.compensate(&order).await.unwrap() {
                            Compensate::Committed { at } => Did::Committed(at),
                            Compensate::Compensated { at, answers } => {
                                assert_eq!(answers, [Answer::Integer(100)]);
                                Did::Compensated(at)
                            }
                            other => panic!("{other:?}"),
                        },
                        _ => {
                            let report = Scanner::new(log, ScanOptions::default()).run_once().await.unwrap();
                            assert!(report.failures.is_empty() && report.parked.is_empty(), "{report:?}");
                            Did::Scanned
                        }
                    }
                })
            })
            .collect();
        let mut answers = Vec::new();
        for caller in callers {
            answers.push(caller.await.unwrap());
        }
        answers.retain(|did| *did != Did::Scanned);
        assert!(answers.len() > 30 && answers.iter().all(|did| *did == answers[0]), "{answers:?}");
        let amount = server.ask(&["HGET", &account, "amount"]).unwrap();
        match answers[0] {
            Did::Committed(_) => {
                committed += 1;
                assert_eq!(amount, "0");
            }
            _ => {
                compensated += 1;
                assert_eq!(amount, "100");
            }
        }
    }
    assert!(committed > 0 && compensated > 0, "{committed} {compensated}");
}

/// Makes a call again for as long as it certainly did nothing, or may have done something: both are safe.
macro_rules! until_answered {
    ($call:expr) => {{
        let mut calls = 0;
        loop {
            match $call.await {
                Ok(answer) => break answer,
                Err(e) => assert!(e.kind != ErrorKind::Refused && calls < 2_000, "{e}"),
            }
            calls += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }};
}

#[tokio::test]
async fn flushes_of_functions_and_scripts_under_load_harm_nobody() {
    let server = Arc::new(Redis::start().unwrap());
    server.ask(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-function", "-fcall"]).unwrap();
    server.ask(&["HSET", "balance:1", "amount", "1000000"]).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let flusher = {
        let (server, over) = (server.clone(), over.clone());
        std::thread::spawn(move || {
            let mut flushes = 0;
            while !over.load(Ordering::Relaxed) {
                server.ask(&["FUNCTION", "FLUSH"]).unwrap();
                server.ask(&["SCRIPT", "FLUSH"]).unwrap();
                flushes += 1;
                std::thread::sleep(Duration::from_millis(3));
            }
            flushes
        })
    };
    let urls = [server.url(), format!("redis://app:pw@127.0.0.1:{}", server.port())];
    let mut callers = Vec::new();
    for n in 0..20 {
        let log = log(&urls[n % 2]).await;
        callers.push(tokio::spawn(async move {
            for nth in 0..20 {
                let order = id(&format!("order:{n}:{nth}"));
                let begin = until_answered!(log.begin(&order, &take_100("balance:1")));
                begun(begin);
                let done = until_answered!(log.compensate(&order));
                assert!(matches!(done, Compensate::Compensated { .. }), "{done:?}");
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    assert!(flusher.join().unwrap() > 5);
    assert_eq!(server.ask(&["HGET", "balance:1", "amount"]).unwrap(), "1000000");
}

#[tokio::test]
async fn without_memory_nothing_is_half_done_and_what_ends_things_still_works() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    let large = |n: usize| {
        let forward = format!("SET large:{n} {}", "x".repeat(200_000));
        Intent::new(commands(&[&format!("DEL large:{n}"), "HINCRBY count undone 1"]))
            .forward(commands(&[&forward, "HINCRBY count done 1"]))
    };
    begun(log.begin(&id("before"), &large(0)).await.unwrap());
    let used = server.ask(&["INFO", "memory"]).unwrap();
    let used: u64 =
        used.lines().find_map(|l| l.strip_prefix("used_memory:")).unwrap().trim().parse().unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory", &(used + 1_500_000).to_string()]).unwrap();

    let mut done = 1;
    let refused = loop {
        match log.begin(&id(&format!("order:{done}")), &large(done)).await {
            Ok(begin) => begun(begin),
            Err(e) => break e,
        };
        done += 1;
        assert!(done < 100);
    };
    assert_eq!(refused.kind, ErrorKind::OutOfMemory);
    assert_eq!(server.ask(&["HGET", "count", "done"]).unwrap(), done.to_string());
    assert_eq!(log.show(&id(&format!("order:{done}"))).await.unwrap(), None);
    assert_eq!(server.ask(&["EXISTS", &format!("large:{done}")]).unwrap(), "0");

    server.ask(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    // An undo is refused whole; a commit frees what scanners look at, and is not.
    assert_eq!(log.compensate(&id("before")).await.unwrap_err().kind, ErrorKind::OutOfMemory);
    assert_eq!(server.ask(&["HEXISTS", "count", "undone"]).unwrap(), "0");
    assert_eq!(server.ask(&["EXISTS", "large:0"]).unwrap(), "1");
    assert!(matches!(log.commit(&id("order:1")).await.unwrap(), Commit::Committed { .. }));

    server.ask(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    assert!(matches!(log.compensate(&id("before")).await.unwrap(), Compensate::Compensated { .. }));
    assert_eq!(server.ask(&["HGET", "count", "undone"]).unwrap(), "1");
    begun(log.begin(&id(&format!("order:{done}")), &large(done)).await.unwrap());
    assert_eq!(server.ask(&["HGET", "count", "done"]).unwrap(), (done + 1).to_string());
}

#[tokio::test]
async fn a_server_that_is_killed_and_restarted_keeps_every_answer_and_doubles_nothing() {
    let mut server = Redis::start().unwrap();
    let url = server.url();
    server.ask(&["HSET", "balance:1", "amount", "100000"]).unwrap();
    let mut callers = Vec::new();
    for n in 0..16 {
        let log = log(&url).await;
        callers.push(tokio::spawn(async move {
            for nth in 0..12 {
                let order = id(&format!("order:{n}:{nth}"));
                let intent = take_100("balance:1");
                let begin = until_answered!(log.begin(&order, &intent));
                begun(begin);
                if nth % 2 == 0 {
                    until_answered!(log.compensate(&order));
                }
            }
        }));
    }
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(40)).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(20)).await;
        server.restart().unwrap();
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let log = log(&url).await;
    for n in 0..16 {
        for nth in 0..12 {
            let record = log.show(&id(&format!("order:{n}:{nth}"))).await.unwrap().unwrap();
            assert_eq!(record.status, if nth % 2 == 0 { Status::Compensated } else { Status::Pending });
        }
    }
    assert_eq!(server.ask(&["HGET", "balance:1", "amount"]).unwrap(), (100_000 - 16 * 6 * 100).to_string());
}

/// A server cannot stop in the middle of a function; should one, a person must look, and no machine goes on from there.
#[tokio::test]
async fn what_was_left_half_done_is_noticed() {
    let server = Redis::start().unwrap();
    let log: Log = log(&server.url()).await;
    begun(log.begin(&id("o"), &Intent::new(commands(&["DEL a"]))).await.unwrap());
    server.ask(&["HSET", "compensate_log:o", "running", "compensate"]).unwrap();
    let Compensate::Refused(refusal) = log.compensate(&id("o")).await.unwrap() else { panic!() };
    assert_eq!(refusal.reason, amends_redis::Reason::HalfDone);
    assert!(matches!(log.commit(&id("o")).await.unwrap(), Commit::Refused(_)));
    assert!(matches!(
        log.begin(&id("o"), &Intent::new(commands(&["DEL a"]))).await.unwrap(),
        Begin::Refused(_)
    ));
}
