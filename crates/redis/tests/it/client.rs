//! Connecting, loading and calling.

use amends_redis::{Client, ErrorKind, Function, Library, Options};
use amends_testbed::redis::{Cluster, Redis};
use redis::Value;

static LIBRARY: Library = Library {
    name: "amends_test_v1",
    texts: &[
        "register('amends_test_put_v1', {}, function(keys, args)\n  redis.call('SET', keys[1], args[1])\n  return {'put', args[1]}\nend)\n",
    ],
};
static LIBRARIES: &[&Library] = &[&LIBRARY];
static PUT: Function = Function { library: &LIBRARY, name: "amends_test_put_v1", flags: &[] };

fn put(value: &str) -> Value {
    Value::Array(vec![Value::BulkString(b"put".to_vec()), Value::BulkString(value.as_bytes().to_vec())])
}

async fn connect(url: &str) -> Client {
    Client::connect(url, LIBRARIES, Options::default()).await.unwrap()
}

#[tokio::test]
async fn a_function_is_called_also_after_a_flush_and_a_restart() {
    let mut server = Redis::start().unwrap();
    let client = connect(&server.url()).await;
    assert!(!client.is_cluster());
    assert_eq!(client.call(&PUT, &[b"a"], &[b"1"]).await.unwrap(), put("1"));

    server.ask(&["FUNCTION", "FLUSH"]).unwrap();
    assert_eq!(client.call(&PUT, &[b"a"], &[b"2"]).await.unwrap(), put("2"));

    server.kill();
    let gone = client.call(&PUT, &[b"a"], &[b"3"]).await.unwrap_err();
    assert!(matches!(gone.kind, ErrorKind::Unknown | ErrorKind::Unreachable), "{gone:?}");
    let gone = client.call(&PUT, &[b"a"], &[b"3"]).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::Unreachable, "{gone:?}");
    server.restart().unwrap();
    assert_eq!(server.ask(&["GET", "a"]).unwrap(), "2");
    assert_eq!(client.call(&PUT, &[b"a"], &[b"4"]).await.unwrap(), put("4"));
}

#[tokio::test]
async fn code_is_sent_as_scripts_where_functions_are_not_permitted() {
    let server = Redis::start().unwrap();
    server.ask(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-function", "-fcall"]).unwrap();
    let client = connect(&format!("redis://app:pw@127.0.0.1:{}", server.port())).await;
    assert!(client.sends_scripts());
    assert_eq!(client.call(&PUT, &[b"a"], &[b"1"]).await.unwrap(), put("1"));
    server.ask(&["SCRIPT", "FLUSH"]).unwrap();
    assert_eq!(client.call(&PUT, &[b"a"], &[b"2"]).await.unwrap(), put("2"));
}

#[tokio::test]
async fn a_cluster_is_found_and_every_primary_has_the_functions() {
    let cluster = Cluster::start().unwrap();
    let client = connect(&cluster.url()).await;
    assert!(client.is_cluster());
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(client.call(&PUT, &[key.as_bytes()], &[b"1"]).await.unwrap(), put("1"));
    }
    let refused = client.call(&PUT, &[b"a", b"b"], &[b"2"]).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::CrossSlot);
    assert!(refused.message.contains("hash tag"), "{refused}");

    for node in cluster.nodes() {
        node.ask(&["FUNCTION", "FLUSH"]).unwrap();
    }
    assert_eq!(client.call(&PUT, &[b"a"], &[b"3"]).await.unwrap(), put("3"));
    let sizes = client.on_each_primary(redis::cmd("DBSIZE")).await.unwrap();
    assert_eq!(sizes.len(), 3);
    let all: i64 = sizes.iter().map(|(_, size)| if let Value::Int(n) = size { *n } else { 0 }).sum();
    assert_eq!(all, 5);
    let (address, size) = &sizes[0];
    assert_eq!(client.on_primary(address, redis::cmd("DBSIZE")).await.unwrap(), *size);
}

#[tokio::test]
async fn errors_say_what_to_do_and_keep_the_password() {
    let refused = Client::connect("nonsense hunter2", LIBRARIES, Options::default()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Refused);
    let gone =
        Client::connect("redis://u:hunter2@127.0.0.1:1", LIBRARIES, Options::default()).await.unwrap_err();
    assert_eq!(gone.kind, ErrorKind::Unreachable);
    for error in [&refused, &gone] {
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
    let server = Redis::start().unwrap();
    server.ask(&["CONFIG", "SET", "requirepass", "right"]).unwrap();
    let denied = Client::connect(&server.url(), LIBRARIES, Options::default()).await.unwrap_err();
    assert_eq!(denied.kind, ErrorKind::Unauthenticated, "{denied:?}");
}
