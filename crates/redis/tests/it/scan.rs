//! The scanner: what is due is undone, oldest first; what cannot be is kept and shown; records of other programs are adopted.

use std::time::Duration;

use amends_redis::{Compensate, Intent, Log, Report, ScanOptions, Scanner, Status, Which};
use amends_testbed::redis::{Cluster, Redis};

use crate::log::{begun, commands, guards, id, log, take_100};

fn scanner(log: &Log) -> Scanner {
    Scanner::new(log.clone(), ScanOptions::default())
}

async fn scan(log: &Log, options: ScanOptions) -> Report {
    Scanner::new(log.clone(), options).run_once().await.unwrap()
}

/// Begins something that is due at once, and waits until it is.
async fn due(log: &Log, order: &str, intent: Intent) {
    begun(log.begin(&id(order), &intent.within(Duration::from_millis(1))).await.unwrap());
    tokio::time::sleep(Duration::from_millis(3)).await;
}

async fn listed(log: &Log, which: Which) -> Vec<String> {
    log.list(which, 1_000).await.unwrap().into_iter().map(|listed| listed.id.to_string()).collect()
}

async fn status(log: &Log, order: &str) -> Status {
    log.show(&id(order)).await.unwrap().unwrap().status
}

/// Makes a record due again, as if its pause were over.
fn end_pause(server: &Redis, order: &str) {
    server.ask(&["ZADD", "compensate_due", "1", order]).unwrap();
}

#[tokio::test]
async fn what_is_due_is_undone_and_what_is_not_is_left() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    server.ask(&["HSET", "balance:1", "amount", "300"]).unwrap();
    due(&log, "late", take_100("balance:1")).await;
    begun(log.begin(&id("young"), &take_100("balance:1")).await.unwrap());
    due(&log, "done", take_100("balance:1")).await;
    log.commit(&id("done")).await.unwrap();

    let report = scanner(&log).run_once().await.unwrap();
    assert_eq!((report.compensated, report.postponed, report.removed), (1, 0, 0), "{report:?}");
    assert!(report.next_due.is_some_and(|next| next > Duration::from_secs(200)), "{report:?}");
    assert_eq!(status(&log, "late").await, Status::Compensated);
    assert_eq!(status(&log, "young").await, Status::Pending);
    assert_eq!(status(&log, "done").await, Status::Committed);
    assert_eq!(server.ask(&["HGET", "balance:1", "amount"]).unwrap(), "100");
    assert!(scanner(&log).run_once().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_oldest_come_first_and_a_batch_is_bounded() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    for n in 0..250 {
        let intent = Intent::new(commands(&[&format!("RPUSH order {n}")])).within(Duration::from_millis(1));
        begun(log.begin(&id(&format!("o:{n}")), &intent).await.unwrap());
        // Later ones are older: what counts is when they are due.
        server.ask(&["ZADD", "compensate_due", &(1_000_000 - n).to_string(), &format!("o:{n}")]).unwrap();
    }
    let options = ScanOptions { batch_max: 120, ..ScanOptions::default() };
    let report = scan(&log, options.clone()).await;
    assert_eq!((report.compensated, report.left), (120, true));
    let done: Vec<u32> =
        server.ask(&["LRANGE", "order", "0", "-1"]).unwrap().lines().map(|n| n.parse().unwrap()).collect();
    assert!(done.iter().all(|n| *n >= 130), "{done:?}");
    assert_eq!(scan(&log, options.clone()).await.compensated, 120);
    let report = scan(&log, options).await;
    assert_eq!((report.compensated, report.left), (10, false));
    assert_eq!(server.ask(&["LLEN", "order"]).unwrap(), "250");
}

#[tokio::test]
async fn what_is_refused_is_tried_again_then_parked_and_never_lost() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    let intent = Intent::new(commands(&["HINCRBY balance:1 amount -100"]))
        .rollback_guard(guards(&["MIN balance:1 amount 100"]));
    due(&log, "o", intent).await;
    let options = ScanOptions { attempts_max: 3, ..ScanOptions::default() };
    for tries in 1..3 {
        let report = scan(&log, options.clone()).await;
        assert_eq!((report.postponed, report.parked.len()), (1, 0), "{report:?}");
        assert!(scan(&log, options.clone()).await.is_empty(), "it pauses");
        let record = log.show(&id("o")).await.unwrap().unwrap();
        assert_eq!((record.attempts, record.parked), (tries, false));
        assert!(record.reason.unwrap().contains("balance:1 amount does not exist"));
        end_pause(&server, "o");
    }
    let report = scan(&log, options.clone()).await;
    assert_eq!(report.parked[0].id, id("o"));
    assert!(report.parked[0].reason.contains("refused 3 times"), "{report:?}");
    assert_eq!(listed(&log, Which::Parked).await, ["o"]);
    assert!(listed(&log, Which::Pending).await.is_empty());
    assert!(scan(&log, options).await.is_empty());
    assert_eq!(server.ask(&["TTL", "compensate_log:o"]).unwrap(), "-1");

    // A person puts right what was in the way, and does the same as ever.
    server.ask(&["HSET", "balance:1", "amount", "100"]).unwrap();
    assert!(matches!(log.compensate(&id("o")).await.unwrap(), Compensate::Compensated { .. }));
    assert!(listed(&log, Which::Parked).await.is_empty());
    assert_eq!(listed(&log, Which::Settled).await, ["o"]);
}

#[tokio::test]
async fn one_that_fails_does_not_hold_up_the_others() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    for n in 0..150 {
        // Another program put something else where a record should be.
        server.ask(&["SET", &format!("compensate_log:bad:{n}"), "x"]).unwrap();
        server.ask(&["ZADD", "compensate_due", "1", &format!("bad:{n}")]).unwrap();
    }
    due(&log, "good", Intent::new(commands(&["SET done 1"]))).await;
    let report = scanner(&log).run_once().await.unwrap();
    assert_eq!((report.compensated, report.failures.len()), (1, 150));
    assert!(
        report.failures[0].error.message.contains("another program wrote it"),
        "{:?}",
        report.failures[0]
    );
}

#[tokio::test]
async fn settled_records_are_removed_after_the_retention() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    for order in ["a", "b", "c"] {
        due(&log, order, Intent::new(commands(&["SET done 1"]))).await;
    }
    log.commit(&id("a")).await.unwrap();
    scanner(&log).run_once().await.unwrap();
    assert_eq!(listed(&log, Which::Settled).await.len(), 3);
    // One goes by itself: its entry goes too.
    server.ask(&["DEL", "compensate_log:c"]).unwrap();
    server.ask(&["ZADD", "compensate_due", "1", "gone"]).unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let report =
        scan(&log, ScanOptions { retention: Duration::from_millis(2), ..ScanOptions::default() }).await;
    assert_eq!((report.removed, report.settled_by_others), (3, 1), "{report:?}");
    assert_eq!(server.ask(&["KEYS", "*"]).unwrap(), "done");
}

/// Whoever asks for it, and whatever the index says.
#[tokio::test]
async fn only_what_was_settled_long_enough_ago_is_removed() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    for order in ["pending", "fresh"] {
        begun(log.begin(&id(order), &Intent::new(commands(&["SET done 1"]))).await.unwrap());
    }
    log.commit(&id("fresh")).await.unwrap();
    server.ask(&["ZADD", "compensate_settled", "1", "pending"]).unwrap();
    for (order, age, answer) in [
        ("pending", "0", "kept\npending"),
        ("fresh", "3600000", "kept\ncommitted"),
        ("fresh", "0", "removed"),
    ] {
        let record = format!("compensate_log:{order}");
        let keys = ["4", &record, "compensate_due", "compensate_parked", "compensate_settled", age];
        assert_eq!(server.ask(&[&["FCALL", "amends_log_remove_v1"], &keys[..]].concat()).unwrap(), answer);
    }
    assert_eq!(status(&log, "pending").await, Status::Pending);
    assert_eq!(listed(&log, Which::Pending).await, ["pending"]);
    assert_eq!(log.show(&id("fresh")).await.unwrap(), None);
}

/// As the program of the second seed document writes it.
fn seed(server: &Redis, order: &str, rollback: &str, age_s: i64, expire_s: i64) {
    let now: i64 = server.ask(&["TIME"]).unwrap().lines().next().unwrap().parse().unwrap();
    let key = format!("compensate_log:{order}");
    let (created, expire) = ((now - age_s).to_string(), (now - age_s + expire_s).to_string());
    let fields =
        ["status", "pending", "rollback_cmd", rollback, "created_at", &created, "expire_at", &expire];
    server.ask(&[&["HSET", &key], &fields[..]].concat()).unwrap();
    server.ask(&["EXPIRE", &key, &expire_s.to_string()]).unwrap();
}

#[tokio::test]
async fn records_of_other_programs_are_adopted_or_parked_with_the_reason() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    server.ask(&["HSET", "balance:1001", "amount", "500"]).unwrap();
    seed(&server, "order:789", "HINCRBY balance:1001 amount -100", 301, 86_400);
    seed(&server, "order:young", "DEL user:1001", 10, 86_400);
    // It gave its business an hour: that is not over.
    seed(&server, "order:hour", "DEL user:1001", 301, 86_400 + 3_600);
    seed(&server, "order:quoted", r#"SET "a key" "two words\x00" KEEPTTL"#, 4_000, 86_400);
    seed(&server, "order:bad", "FLUSHALL", 301, 86_400);
    seed(&server, "order:open", "SET k \"never closed", 301, 86_400);
    seed(&server, "order:empty", "", 301, 86_400);
    seed(&server, "order:done", "DEL user:1001", 301, 86_400);
    server.ask(&["HSET", "compensate_log:order:done", "status", "committed"]).unwrap();
    seed(&server, "order:odd", "DEL user:1001", 301, 86_400);
    server.ask(&["HSET", "compensate_log:order:odd", "status", "canceling"]).unwrap();
    server.ask(&["SET", "compensate_log:string", "x"]).unwrap();

    let report = scanner(&log).run_once().await.unwrap();
    assert_eq!((report.adopted, report.compensated, report.failures.len()), (4, 2, 0), "{report:?}");
    assert_eq!(server.ask(&["HGET", "balance:1001", "amount"]).unwrap(), "400");
    let record = log.show(&id("order:quoted")).await.unwrap().unwrap();
    assert_eq!(record.rollback.as_slice()[0].words()[2], b"two words\0");
    let mut parked: Vec<_> = report.parked.iter().map(|p| (p.id.to_string(), p.reason.clone())).collect();
    parked.sort();
    for ((order, reason), (expected, word)) in parked.iter().zip([
        ("order:bad", "\"FLUSHALL\" is not one of the commands allowed"),
        ("order:empty", "no rollback_cmd"),
        ("order:odd", "canceling"),
        ("order:open", "double quote is not closed"),
    ]) {
        assert!(order == expected && reason.contains(word), "{order}: {reason}");
        assert_eq!(
            server.ask(&["TTL", &format!("compensate_log:{order}")]).unwrap(),
            "-1",
            "it does not vanish"
        );
    }
    assert_eq!(parked.len(), 4);
    assert_eq!(listed(&log, Which::Pending).await, ["order:young", "order:hour"]);
    assert_eq!(server.ask(&["TTL", "compensate_log:order:young"]).unwrap(), "-1");
    assert_eq!(status(&log, "order:done").await, Status::Committed);
    assert!(scanner(&log).run_once().await.unwrap().is_empty(), "each is adopted once");

    // A person corrects one, by hand or with the other program: it is taken up.
    server.ask(&["HSET", "compensate_log:order:bad", "rollback_cmd", "DEL user:1001"]).unwrap();
    let report = scanner(&log).run_once().await.unwrap();
    assert_eq!((report.adopted, report.compensated), (1, 1), "{report:?}");
    // The other program ends one by itself.
    server.ask(&["HSET", "compensate_log:order:young", "status", "compensated"]).unwrap();
    assert!(matches!(log.compensate(&id("order:young")).await.unwrap(), Compensate::Compensated { .. }));
    assert_eq!(listed(&log, Which::Pending).await, ["order:hour"]);
}

#[tokio::test]
async fn a_record_of_another_program_is_undone_on_demand_too() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    seed(&server, "order:1", "INCRBY stock 3", 1, 86_400);
    let undone = log.compensate(&id("order:1")).await.unwrap();
    assert!(matches!(undone, Compensate::Compensated { .. }), "{undone:?}");
    assert_eq!(log.compensate(&id("order:1")).await.unwrap(), undone);
    assert_eq!(server.ask(&["GET", "stock"]).unwrap(), "3");
    seed(&server, "order:2", "EVAL x", 1, 86_400);
    let Compensate::Refused(refusal) = log.compensate(&id("order:2")).await.unwrap() else { panic!() };
    assert!(refusal.detail.contains("EVAL"), "{refusal}");
}

#[tokio::test]
async fn a_sweep_puts_back_what_the_index_lost() {
    let server = Redis::start().unwrap();
    let log = log(&server.url()).await;
    due(&log, "o", Intent::new(commands(&["SET done 1"]))).await;
    server.ask(&["DEL", "compensate_due"]).unwrap();
    // Somebody gave it a time to live: a pending record does not go by itself.
    server.ask(&["EXPIRE", "compensate_log:o", "1000"]).unwrap();
    begun(log.begin(&id("young"), &Intent::new(commands(&["SET done 2"]))).await.unwrap());
    server.ask(&["EXPIRE", "compensate_log:young", "1000"]).unwrap();
    let report = scanner(&log).run_once().await.unwrap();
    assert_eq!(report.compensated, 1);
    assert_eq!(server.ask(&["GET", "done"]).unwrap(), "1");
    assert_eq!(server.ask(&["TTL", "compensate_log:young"]).unwrap(), "-1");
}

#[tokio::test]
async fn in_a_cluster_every_slot_is_looked_after() {
    let cluster = Cluster::start().unwrap();
    let log = log(&cluster.url()).await;
    let ask = |command: &[&str]| cluster.nodes().iter().find_map(|node| node.ask(command).ok()).unwrap();
    for tag in ["a", "b", "c", "d"] {
        let intent = Intent::new(commands(&[&format!("INCRBY {{{tag}}}:undone 1")]));
        due(&log, &format!("order:{{{tag}}}"), intent).await;
    }
    for (order, rollback) in [("f:{a}", "INCRBY {a}:undone 1"), ("f:{b}", "DEL elsewhere")] {
        let key = format!("compensate_log:{order}");
        ask(&["HSET", &key, "status", "pending", "rollback_cmd", rollback, "created_at", "1"]);
        ask(&["EXPIRE", &key, "1000"]);
    }
    let report = scanner(&log).run_once().await.unwrap();
    assert_eq!((report.compensated, report.adopted, report.failures.len()), (5, 1, 0), "{report:?}");
    assert_eq!(report.parked[0].id, id("f:{b}"));
    assert!(report.parked[0].reason.contains("hash tag"), "{report:?}");
    assert_eq!(ask(&["GET", "{a}:undone"]), "2");
    assert_eq!(ask(&["GET", "{d}:undone"]), "1");
    assert_eq!(listed(&log, Which::Parked).await, ["f:{b}"]);
}

#[tokio::test]
async fn a_running_scanner_is_woken_and_does_not_wait_for_its_interval() {
    let server = Redis::start().unwrap();
    woken(&server.url(), "order:1", "done").await;
}

#[tokio::test]
async fn a_running_scanner_is_woken_in_a_cluster_too() {
    let cluster = Cluster::start().unwrap();
    woken(&cluster.url(), "order:{1}", "done:{1}").await;
}

/// The interval is an hour, so only the message can be the reason that the record is undone.
async fn woken(url: &str, order: &str, key: &str) {
    let hour = Duration::from_secs(3_600);
    let options = ScanOptions {
        interval: hour,
        sweep_interval: hour,
        wake_url: Some(url.to_owned()),
        ..ScanOptions::default()
    };
    let log = log(url).await;
    let scanner = Scanner::new(log.clone(), options);
    let (heard, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move {
        let stop = async move { drop(stopped.await) };
        scanner.run(stop, |report| heard.send(report.compensated).unwrap()).await;
    });
    let mut round = async |nth: usize| {
        let order = format!("{order}:{nth}");
        let intent = Intent::new(commands(&[&format!("INCRBY {key} 1")])).within(Duration::from_millis(50));
        begun(log.begin(&id(&order), &intent).await.unwrap());
        // Should the message have come before the scanner listened, a later one wakes it all the same.
        for _ in 0..300 {
            tokio::select! {
                report = reports.recv() => {
                    assert_eq!(report.unwrap(), 1);
                    assert_eq!(status(&log, &order).await, Status::Compensated);
                    return;
                }
                () = tokio::time::sleep(Duration::from_millis(200)) => log.wake().await,
            }
        }
        panic!("nothing woke it");
    };
    // The first may be found by the pass that every scanner begins with. When that is over, an hour of silence follows.
    round(1).await;
    round(2).await;
    round(3).await;
    stop.send(()).unwrap();
    running.await.unwrap();
}
