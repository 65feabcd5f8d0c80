//! Locks while their server has no memory, no replicas, no functions, or has lost what it had acknowledged.

use std::time::Duration;

use amends_redis::{ErrorKind, LOCK_KEY_PREFIX, Options, RedisLocks};
use amends_store::Kind;
use amends_store::locks::{
    Acquired, Ask, Because, Granted, Hold, LockName, Locks as _, Lost, Owner, Release, Renewal, Ttl,
};
use amends_testbed::redis::{Cluster, Redis};

async fn connect(url: &str) -> RedisLocks {
    RedisLocks::connect(url, Options::default()).await.unwrap()
}

fn ask(name: &str, ttl_ms: u64) -> Ask {
    Ask::new(LockName::new(name).unwrap(), Ttl::from_ms(ttl_ms).unwrap())
}

async fn granted(locks: &RedisLocks, ask: &Ask) -> Granted {
    match locks.acquire(ask).await.unwrap() {
        Acquired::Held(granted) => granted,
        Acquired::Busy(busy) => panic!("{} is busy: {busy:?}", ask.name),
    }
}

async fn take(locks: &RedisLocks, name: &str, ttl_ms: u64) -> Hold {
    let ask = ask(name, ttl_ms);
    let token = granted(locks, &ask).await.token;
    Hold { name: ask.name, owner: Some(ask.owner), token }
}

fn because() -> Because {
    Because::abandon("a test").unwrap()
}

fn minute() -> Ttl {
    Ttl::from_ms(60_000).unwrap()
}

fn key(name: &str) -> String {
    format!("{LOCK_KEY_PREFIX}{name}")
}

/// By functions, and as a user who may not use them.
async fn both(server: &Redis) -> [RedisLocks; 2] {
    server
        .ask(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-function", "-fcall", "-fcall_ro"])
        .unwrap();
    [connect(&server.url()).await, connect(&format!("redis://app:pw@127.0.0.1:{}", server.port())).await]
}

#[tokio::test]
async fn a_server_that_may_forget_locks_is_refused() {
    let server = Redis::start().unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]).unwrap();
    let refused = RedisLocks::connect(&server.url(), Options::default()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Refused);
    assert!(refused.message.contains("noeviction"), "{refused}");
}

#[tokio::test]
async fn without_memory_what_is_held_is_renewed_and_released() {
    let server = Redis::start().unwrap();
    for locks in both(&server).await {
        server.ask(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
        let held = take(&locks, "a", 60_000).await;
        server.ask(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
        let refused = locks.acquire(&ask("b", 60_000)).await.unwrap_err();
        assert_eq!(refused.kind, Kind::Unwritable, "{refused}");
        assert!(refused.message.contains('b') && refused.message.contains("OOM"), "{refused}");
        assert!(matches!(locks.renew(&held, minute()).await.unwrap(), Renewal::Renewed { .. }));
        let reason = Because::abandon("r".repeat(1_024)).unwrap();
        assert_eq!(locks.release(&held, &reason).await.unwrap(), Release::Released);
        assert_eq!(locks.show(&held.name).await.unwrap().held, None);
    }
}

#[tokio::test]
async fn a_release_that_fails_leaves_the_lease_to_end_by_itself() {
    let server = Redis::start().unwrap();
    let locks = connect(&server.url()).await;
    let held = take(&locks, "a", 300).await;
    server.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]).unwrap();
    let failed = locks.release(&held, &because()).await.unwrap_err();
    assert_eq!(failed.kind, Kind::Unwritable, "{failed}");
    while locks.show(&held.name).await.unwrap().held.is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]).unwrap();
    assert!(take(&locks, "a", 60_000).await.token > held.token);
}

#[tokio::test]
async fn flushed_functions_and_scripts_come_back_and_tokens_go_on() {
    let server = Redis::start().unwrap();
    for locks in both(&server).await {
        let mut last = 0;
        for _ in 0..5 {
            for flush in [["FUNCTION", "FLUSH"], ["SCRIPT", "FLUSH"]] {
                server.ask(&flush).unwrap();
                let held = take(&locks, "a", 60_000).await;
                assert!(held.token > last);
                last = held.token;
                server.ask(&flush).unwrap();
                assert!(matches!(locks.renew(&held, minute()).await.unwrap(), Renewal::Renewed { .. }));
                server.ask(&flush).unwrap();
                assert_eq!(locks.release(&held, &because()).await.unwrap(), Release::Released);
            }
        }
    }
}

#[tokio::test]
async fn a_promoted_replica_that_missed_writes_gives_no_token_again() {
    let mut primary = Redis::start().unwrap();
    let replica = primary.replica().unwrap();
    let locks = connect(&primary.url()).await;
    let early = take(&locks, "a", 60_000).await;
    while replica.ask(&["HGET", &key("a"), "token"]).unwrap() != early.token.to_string() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // From here on it is a primary of its own: what the other acknowledges never comes to it.
    replica.promote().unwrap();
    locks.release(&early, &because()).await.unwrap();
    let mut lost = take(&locks, "a", 60_000).await;
    for _ in 0..20 {
        locks.release(&lost, &because()).await.unwrap();
        lost = take(&locks, "a", 60_000).await;
    }
    primary.kill();

    let locks = connect(&replica.url()).await;
    // It believes in the holder it knew, and does not know the one it missed.
    assert!(matches!(locks.acquire(&ask("a", 60_000)).await.unwrap(), Acquired::Busy(_)));
    assert_eq!(locks.renew(&lost, minute()).await.unwrap(), Renewal::Lost(Lost::Unknown));
    assert_eq!(locks.release(&lost, &because()).await.unwrap(), Release::LeaseLost(Lost::Unknown));
    assert_eq!(locks.release(&early, &because()).await.unwrap(), Release::Released);
    let next = take(&locks, "a", 60_000).await;
    assert!(next.token > lost.token, "{} after {}: a token went back", next.token, lost.token);
    assert_eq!(locks.release(&lost, &because()).await.unwrap(), Release::LeaseLost(Lost::Taken));
}

#[tokio::test]
async fn a_server_that_lost_everything_gives_no_token_again() {
    let mut server = Redis::start().unwrap();
    let locks = connect(&server.url()).await;
    let held = take(&locks, "a", 60_000).await;
    server.kill();
    server.forget_data().unwrap();
    server.restart().unwrap();
    let locks = connect(&server.url()).await;
    assert!(take(&locks, "a", 60_000).await.token > held.token);
    assert_eq!(locks.release(&held, &because()).await.unwrap(), Release::LeaseLost(Lost::Taken));
}

#[tokio::test]
async fn a_lock_outlives_its_lease_by_a_week_and_no_more() {
    let server = Redis::start().unwrap();
    let locks = connect(&server.url()).await;
    let held = take(&locks, "a", 60_000).await;
    let lives_until = |name: &str| server.ask(&["PEXPIRETIME", &key(name)]).unwrap().parse::<u64>().unwrap();
    let until = lives_until("a");
    let (week, since) = (7 * 24 * 3_600_000, held.token);
    assert!(until >= since + week + 60_000 && until <= since + week + 61_000, "{until} after {since}");
    let released = locks.release(&held, &because()).await;
    assert_eq!((released.unwrap(), lives_until("a")), (Release::Released, until));

    // A token that ran ahead of the clock is remembered until the clock has come after it.
    let ahead = since + 30 * week;
    server.ask(&["HSET", &key("a"), "token", &ahead.to_string()]).unwrap();
    assert_eq!(take(&locks, "a", 60_000).await.token, ahead + 1);
    assert_eq!(lives_until("a"), ahead + 1 + week);
}

#[tokio::test]
async fn a_hash_that_is_none_of_ours_is_left_alone() {
    let server = Redis::start().unwrap();
    let locks = connect(&server.url()).await;
    server.ask(&["HSET", &key("alien"), "x", "1"]).unwrap();
    server.ask(&["SET", &key("text"), "x"]).unwrap();
    server.ask(&["HSET", &key("odd"), "token", "1e+15", "since", "1", "expires", "1"]).unwrap();
    server.ask(&["HSET", &key("full"), "token", "9007199254740991", "since", "1", "expires", "1"]).unwrap();
    for name in ["alien", "text", "odd", "full"] {
        let refused = locks.acquire(&ask(name, 60_000)).await.unwrap_err();
        assert_eq!(refused.kind, Kind::Refused, "{refused}");
        let hold = Hold { name: LockName::new(name).unwrap(), owner: Some(Owner::random()), token: 1 };
        if name != "full" {
            assert!(locks.release(&hold, &because()).await.is_err());
            assert!(locks.show(&hold.name).await.is_err());
        }
    }
    assert_eq!(server.ask(&["HGETALL", &key("alien")]).unwrap(), "x\n1");
    assert_eq!(server.ask(&["HGET", &key("odd"), "token"]).unwrap(), "1e+15");
    assert_eq!(server.ask(&["HGET", &key("full"), "token"]).unwrap(), "9007199254740991");
}

#[tokio::test]
async fn calls_of_another_shape_write_nothing() {
    let server = Redis::start().unwrap();
    connect(&server.url()).await;
    let long = "x".repeat(1_025);
    let calls: &[&[&str]] = &[
        &["amends_lock_acquire_v1", "0", "o", "1000", ""],
        &["amends_lock_acquire_v1", "1", "k", "o", "1000"],
        &["amends_lock_acquire_v1", "2", "k", "l", "o", "1000", ""],
        &["amends_lock_acquire_v1", "1", "k", "", "1000", ""],
        &["amends_lock_acquire_v1", "1", "k", "o", "99", ""],
        &["amends_lock_acquire_v1", "1", "k", "o", "86400001", ""],
        &["amends_lock_acquire_v1", "1", "k", "o", "1e3", ""],
        &["amends_lock_acquire_v1", "1", "k", "o", "-1", ""],
        &["amends_lock_acquire_v1", "1", "k", "o", "1000", &long],
        &["amends_lock_renew_v1", "1", "k", "o", "", "1000"],
        &["amends_lock_renew_v1", "1", "k", "o", "9007199254740992", "1000"],
        &["amends_lock_release_v1", "1", "k", "o", "1", "saga", ""],
        &["amends_lock_release_v1", "1", "k", "o", "1", "abandon", &long],
        &["amends_lock_release_v1", "1", "k", "o", "1", "because", "x"],
        &["amends_lock_show_v1", "1", "k", "o"],
    ];
    for call in calls {
        let refused = server.ask(&[&["FCALL"], *call].concat()).unwrap_err().to_string();
        assert!(refused.contains("amends_lock: "), "{call:?}: {refused}");
    }
    assert_eq!(server.ask(&["DBSIZE"]).unwrap(), "0");
    // The documented call, as another language would make it.
    let held = server.ask(&["FCALL", "amends_lock_acquire_v1", "1", &key("k"), "o", "1000", "me"]).unwrap();
    let words: Vec<&str> = held.lines().collect();
    assert_eq!((words.len(), words[0], words[2], words[4]), (5, "held", "1000", "new"), "{held}");
    let token = words[1];
    let released = server
        .ask(&["FCALL", "amends_lock_release_v1", "1", &key("k"), "o", token, "saga", "order:1"])
        .unwrap();
    assert_eq!(released, "released");
}

#[tokio::test]
async fn locks_lie_all_over_a_cluster() {
    let cluster = Cluster::start().unwrap();
    let locks = connect(&cluster.url()).await;
    let names: Vec<String> =
        (0..30).map(|n| format!("order:{n}")).chain(["{x}a".into(), "b}{".into()]).collect();
    let mut held = Vec::new();
    for name in &names {
        held.push(take(&locks, name, 60_000).await);
    }
    for node in cluster.nodes() {
        assert_ne!(node.ask(&["DBSIZE"]).unwrap(), "0");
        node.ask(&["FUNCTION", "FLUSH"]).unwrap();
    }
    for hold in &held {
        assert!(matches!(locks.acquire(&ask(hold.name.as_str(), 60_000)).await.unwrap(), Acquired::Busy(_)));
        assert!(matches!(locks.renew(hold, minute()).await.unwrap(), Renewal::Renewed { .. }));
        assert_eq!(locks.release(hold, &because()).await.unwrap(), Release::Released);
        assert_eq!(locks.release(hold, &because()).await.unwrap(), Release::Released);
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_an_error_that_says_whether_anything_was_done() {
    let mut server = Redis::start().unwrap();
    let locks = connect(&server.url()).await;
    let held = take(&locks, "a", 60_000).await;
    server.kill();
    // The connection that broke may have carried it; the next one is refused.
    let _ = locks.release(&held, &because()).await.unwrap_err();
    let gone = locks.release(&held, &because()).await.unwrap_err();
    assert_eq!(gone.kind, Kind::Unavailable, "{gone}");
    server.restart().unwrap();
    assert_eq!(locks.release(&held, &because()).await.unwrap(), Release::Released);
}
