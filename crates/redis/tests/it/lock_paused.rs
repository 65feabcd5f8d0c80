//! A holder that is stopped (SIGSTOP) past its lease.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use amends_redis::{Options, RedisLocks};
use amends_store::locks::{Acquired, Ask, Lease, LeaseOver, LockName, Locks, Ttl};
use amends_testbed::redis::Redis;
use rustix::process::{Pid, Signal, kill_process};

/// Tells this test program that it is the holder, and where its server is.
const URL: &str = "AMENDS_TEST_LOCK_URL";

/// What the lock protects: it keeps the highest token it saw, and refuses lower ones in the same step as the write.
const WRITE: &str = "if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'token') or '0') then return 'refused' end \
     redis.call('HSET', KEYS[1], 'token', ARGV[1], 'by', ARGV[2]) return 'written'";

async fn write(url: &str, token: u64, by: &str) -> String {
    let mut connection = redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap();
    redis::Script::new(WRITE).key("stock").arg(token).arg(by).invoke_async(&mut connection).await.unwrap()
}

fn ask(ttl_ms: u64) -> Ask {
    Ask::new(LockName::new("stock").unwrap(), Ttl::from_ms(ttl_ms).unwrap())
}

async fn connect(url: &str) -> Arc<dyn Locks> {
    Arc::new(RedisLocks::connect(url, Options::default()).await.unwrap())
}

/// Holds the lock, renews as it goes on, and says what it sees; once the lease is over it writes all the same.
async fn holder(url: &str) {
    let say = |text: String| std::io::stdout().lock().write_all(format!("{text}\n").as_bytes()).unwrap();
    let lease = Lease::acquire(connect(url).await, &ask(2_000)).await.unwrap().unwrap();
    say(format!("first {}", write(url, lease.token(), "holder").await));
    let over = loop {
        match lease.renew_if_needed().await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(over) => break over,
        }
    };
    say(format!("over {}", over == LeaseOver::Passed));
    say(format!("late {}", write(url, lease.token(), "holder").await));
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[tokio::test]
async fn a_stopped_holder_notices_and_its_late_write_is_refused() {
    if let Ok(url) = std::env::var(URL) {
        return holder(&url).await;
    }
    let server = Redis::start().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "lock_paused::a_stopped_holder_notices_and_its_late_write_is_refused",
        "--nocapture",
    ]);
    let mut child = command.env(URL, server.url()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    // The runner of the tests says things too.
    let mut said = |word: &str| lines.find_map(|line| line.split_once(word).map(|(_, rest)| rest.to_owned()));
    assert_eq!(said("first ").as_deref(), Some("written"));

    signal(&child, Signal::STOP);
    let locks = connect(&server.url()).await;
    let next = ask(60_000);
    let token = loop {
        match locks.acquire(&next).await.unwrap() {
            Acquired::Held(granted) => break granted.token,
            Acquired::Busy(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert_eq!(write(&server.url(), token, "next").await, "written");
    signal(&child, Signal::CONT);
    assert_eq!(said("over ").as_deref(), Some("true"), "it did not notice by itself");
    assert_eq!(said("late ").as_deref(), Some("refused"));
    assert!(child.wait().unwrap().success());
    assert_eq!(server.ask(&["HGET", "stock", "by"]).unwrap(), "next");
}
