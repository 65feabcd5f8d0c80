//! The whitelist on a real server: Lua and Rust judge alike, and what is planned does not fail.

use amends_redis::{Client, Command, Commands, Function, Library, Options};
use amends_testbed::redis::Redis;
use redis::Value;

static LIBRARY: Library = Library {
    name: "amends_commands_test_v1",
    texts: &[
        amends_core::definition::redis::COMMANDS_TABLE,
        include_str!("../../functions/commands.lua"),
        r"
local function all(keys)
  local declared = {}
  for _, key in ipairs(keys) do declared[key] = true end
  return declared
end
register('amends_test_judge_v1', {}, function(keys, args)
  local commands, at = commands_read(args, 1)
  if not commands then return {'unread', at} end
  local declared = setmetatable({}, { __index = function() return true end })
  local wrong = commands_malformed(commands, {}, declared)
  if wrong then return {'malformed', wrong} end
  local packed = commands_pack(commands)
  if commands_pack(commands_unpack(packed)) ~= packed then return {'packing'} end
  return {'fine'}
end)
register('amends_test_run_v1', {}, function(keys, args)
  local commands, at = commands_read(args, 1)
  local guards = commands_read(args, at)
  local wrong = commands_malformed(commands, guards, all(keys))
  if wrong then return {'malformed', wrong} end
  local plan, word, why = commands_plan(commands, guards)
  if not plan then return {'refused', word, why} end
  local answers = commands_run(plan)
  table.insert(answers, 1, 'done')
  return answers
end)
",
    ],
};
static LIBRARIES: &[&Library] = &[&LIBRARY];
static JUDGE: Function = Function { library: &LIBRARY, name: "amends_test_judge_v1", flags: &[] };
static RUN: Function = Function { library: &LIBRARY, name: "amends_test_run_v1", flags: &[] };

/// Numbers that look random and are the same in every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    pub(crate) fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

async fn call(client: &Client, function: &Function, keys: &[&[u8]], args: &[Vec<u8>]) -> Vec<String> {
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    match client.call(function, keys, &args).await.unwrap() {
        Value::Array(words) => words.into_iter().map(text).collect(),
        other => panic!("{other:?}"),
    }
}

fn text(value: Value) -> String {
    match value {
        Value::BulkString(bytes) => bytes.escape_ascii().to_string(),
        other => panic!("{other:?}"),
    }
}

fn flat(vectors: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    let mut args = vec![vectors.len().to_string().into_bytes()];
    for words in vectors {
        args.push(words.len().to_string().into_bytes());
        args.extend(words.iter().cloned());
    }
    args
}

/// Runs commands, then gives the answer's words.
async fn run(client: &Client, commands: &[&str], guards: &[&str]) -> Vec<String> {
    let commands = Commands::parse(commands.iter().copied()).unwrap();
    let mut args = Vec::new();
    commands.append_to(&mut args);
    let guards: Vec<_> = guards.iter().map(|g| amends_redis::Guard::parse(g.as_bytes()).unwrap()).collect();
    args.extend(flat(&guards.iter().map(amends_redis::Guard::words).collect::<Vec<_>>()));
    let mut keys = commands.keys();
    keys.extend(guards.iter().map(amends_redis::Guard::key));
    call(client, &RUN, &keys, &args).await
}

const NAMES: [&str; 20] = [
    "HSET", "HDEL", "HINCRBY", "INCRBY", "DECRBY", "DEL", "SET", "ZADD", "ZREM", "ZINCRBY", "SADD", "SREM",
    "LPUSH", "RPUSH", "LREM", "EXPIRE", "PERSIST", "hset", "EVAL", "FLUSHALL",
];

#[tokio::test]
async fn lua_and_rust_judge_alike() {
    let server = Redis::start().unwrap();
    let client = Client::connect(&server.url(), LIBRARIES, Options::default()).await.unwrap();
    let words = [
        "k",
        "f",
        "",
        "0",
        "1",
        "-1",
        "01",
        "-0",
        "+1",
        "1.5",
        "-1.",
        ".5",
        "1e3",
        "inf",
        "nan",
        "1 ",
        "EX",
        "PX",
        "EXAT",
        "PXAT",
        "KEEPTTL",
        "NX",
        "xx",
        "GT",
        "LT",
        "CH",
        "GET",
        "INCR",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775807",
        "-9223372036854775808",
        "99999999999999999999",
        "9999999999",
        "10000000000",
        "9999999999999",
        "10000000000000",
        "12345678901234567890123456789012345678901",
        "a\0b",
        "é",
    ];
    let mut dice = Dice::new(1);
    let mut fine = 0;
    for round in 0..20_000 {
        let mut vector = vec![dice.pick(&NAMES).as_bytes().to_vec()];
        vector.push(dice.pick(&["k", "k", "k", "k", ""]).as_bytes().to_vec());
        vector.extend((0..dice.below(6)).map(|_| dice.pick(&words).as_bytes().to_vec()));
        let rust = Command::new(vector.clone());
        let lua = call(&client, &JUDGE, &[], &flat(&[vector.clone()])).await;
        fine += usize::from(rust.is_ok());
        let shown = vector.iter().map(|w| w.escape_ascii().to_string()).collect::<Vec<_>>();
        let expected = if rust.is_ok() { "fine" } else { "malformed" };
        assert_eq!(lua[0], expected, "round {round}: {shown:?}: {rust:?} {lua:?}");
    }
    assert!(fine > 2_000, "only {fine} were well-formed");
}

/// Every story: what is refused changed nothing, and what was planned ran to its end: an error in the middle fails this test.
#[tokio::test]
async fn what_is_planned_does_not_fail_and_what_is_refused_changes_nothing() {
    let server = Redis::start().unwrap();
    let client = Client::connect(&server.url(), LIBRARIES, Options::default()).await.unwrap();
    let mut dice = Dice::new(7);
    let (mut done, mut refused) = (0, std::collections::BTreeMap::new());
    for round in 0..6_000 {
        if round % 40 == 0 {
            server.ask(&["FLUSHDB"]).unwrap();
        }
        let mut commands = Vec::new();
        for _ in 0..=dice.below(5) {
            commands.push(random_command(&mut dice));
        }
        let before = state(&client).await;
        let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
        let answer = run(&client, &commands, &[]).await;
        if answer[0] == "done" {
            done += 1;
            assert_eq!(answer.len(), commands.len() + 1);
        } else {
            *refused.entry(answer[1].clone()).or_insert(0) += 1;
            assert_eq!(state(&client).await, before, "round {round}: {commands:?} {answer:?}");
        }
    }
    let kinds: Vec<_> = refused.keys().map(String::as_str).collect();
    assert_eq!(kinds, ["not-integer", "overflow", "wrong-type"]);
    assert!(done > 1_000, "{done} {refused:?}");
}

fn random_command(dice: &mut Dice) -> String {
    let key = dice.pick(&["a", "b"]);
    let field = dice.pick(&["f", "g"]);
    let value = dice.pick(&["1", "x", "9223372036854775806", "\"\"", "-9223372036854775808", "01"]);
    let by = dice.pick(&["1", "-1", "5", "9223372036854775807", "-9223372036854775807"]);
    let number = dice.pick(&["1", "-2.5", "99999999999999999999999999999999999999"]);
    match dice.below(17) {
        0 => format!("HSET {key} {field} {value}"),
        1 => format!("HDEL {key} {field} g"),
        2 | 3 => format!("HINCRBY {key} {field} {by}"),
        4 => format!("INCRBY {key} {by}"),
        5 => format!("DECRBY {key} {by}"),
        6 => format!("DEL {key} b"),
        7 | 8 => {
            let options = dice.pick(&[
                "",
                "NX",
                "XX",
                "GET",
                "EX 100 NX",
                "PXAT 1",
                "PXAT 1 XX",
                "KEEPTTL",
                "NX GET",
                "EXAT 1",
            ]);
            format!("SET {key} {value} {options}")
        }
        9 => format!("ZADD {key} {} {number} m", dice.pick(&["", "NX", "XX", "GT CH", "XX LT"])),
        10 => format!("ZREM {key} m"),
        11 => format!("ZINCRBY {key} {number} m"),
        12 => format!("SADD {key} {value}"),
        13 => format!("SREM {key} 1 x"),
        14 => format!("LPUSH {key} {value} {value}"),
        15 => format!("LREM {key} {by} x"),
        _ => format!("{} {key}", dice.pick(&["PERSIST", "EXPIRE"]))
            .replace("EXPIRE a", "EXPIRE a 9999999999")
            .replace("EXPIRE b", "EXPIRE b 7"),
    }
}

/// What both keys hold.
async fn state(client: &Client) -> Vec<Value> {
    let mut state = Vec::new();
    for key in ["a", "b"] {
        state.push(client.command(redis::cmd("DUMP").arg(key).to_owned()).await.unwrap());
    }
    state
}

/// Whether the first command leaves the key decides what the second does, and that is not known before it runs.
#[tokio::test]
async fn what_depends_on_an_earlier_command_is_refused_instead_of_failing_midway() {
    let server = Redis::start().unwrap();
    let client = Client::connect(&server.url(), LIBRARIES, Options::default()).await.unwrap();
    for more in [None, Some("g")] {
        server.ask(&["DEL", "a"]).unwrap();
        server.ask(&["HSET", "a", "f", "1"]).unwrap();
        if let Some(field) = more {
            server.ask(&["HSET", "a", field, "1"]).unwrap();
        }
        for condition in ["NX", "XX"] {
            let set = format!("SET a x {condition}");
            let answer = run(&client, &["HDEL a f", &set, "HSET a f 1"], &[]).await;
            assert_eq!(answer[..2], ["refused", "wrong-type"], "{answer:?}");
            assert_eq!(server.ask(&["HGET", "a", "f"]).unwrap(), "1");
        }
    }
}

#[tokio::test]
async fn answers_are_exact_also_beyond_what_lua_can_count() {
    let server = Redis::start().unwrap();
    let client = Client::connect(&server.url(), LIBRARIES, Options::default()).await.unwrap();
    server.ask(&["HSET", "h", "n", "9223372036854775800"]).unwrap();
    assert_eq!(
        run(
            &client,
            &[
                "HINCRBY h n 7",
                "HINCRBY h n -10",
                "INCRBY s 9007199254740993",
                "DECRBY s 9223372036854775807"
            ],
            &[]
        )
        .await,
        [
            "done",
            ":9223372036854775807",
            ":9223372036854775797",
            ":9007199254740993",
            ":-9214364837600034814"
        ]
    );
    assert_eq!(server.ask(&["GET", "s"]).unwrap(), "-9214364837600034814");
    assert_eq!(server.ask(&["HGET", "h", "n"]).unwrap(), "9223372036854775797");
    assert_eq!(
        run(
            &client,
            &["SET x \"a\\x00 b\" GET", "SET x 2 GET", "SADD y a b", "ZINCRBY z 1.5 m", "SET x 3 NX"],
            &[]
        )
        .await,
        ["done", "_", "$a\\x00 b", ":2", "$1.5", "_"]
    );
}

#[tokio::test]
async fn guards_look_at_the_moment_in_which_commands_run() {
    let server = Redis::start().unwrap();
    let client = Client::connect(&server.url(), LIBRARIES, Options::default()).await.unwrap();
    server.ask(&["HSET", "balance:1", "amount", "250", "state", "OPEN"]).unwrap();
    server.ask(&["SET", "stock", "3"]).unwrap();
    let take: &[&str] = &["HINCRBY balance:1 amount -100"];
    for (guard, word) in [
        ("MIN balance:1 amount 251", "guard"),
        ("MIN balance:1 state 1", "not-integer"),
        ("MIN stock amount 1", "wrong-type"),
        ("MIN balance:1 1", "wrong-type"),
        ("MIN stock 4", "guard"),
        ("EQ balance:1 state CLOSED", "guard"),
        ("EQ nothing 1", "guard"),
        ("EXISTS balance:1 owner", "guard"),
        ("EXISTS nothing", "guard"),
    ] {
        let answer = run(&client, take, &[guard]).await;
        assert_eq!(answer[..2], ["refused", word], "{guard}");
    }
    assert_eq!(server.ask(&["HGET", "balance:1", "amount"]).unwrap(), "250");
    let met = [
        "MIN balance:1 amount 250",
        "EQ balance:1 state OPEN",
        "EXISTS balance:1 state",
        "EXISTS stock",
        "MIN stock 3",
        "EQ stock 3",
    ];
    assert_eq!(run(&client, take, &met).await, ["done", ":150"]);
}

#[tokio::test]
async fn a_user_who_may_not_run_all_commands_runs_none() {
    let server = Redis::start().unwrap();
    server.ask(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-lrem"]).unwrap();
    let url = format!("redis://app:pw@127.0.0.1:{}", server.port());
    let client = Client::connect(&url, LIBRARIES, Options::default()).await.unwrap();
    let answer = run(&client, &["SADD s 1", "LREM l 1 x"], &[]).await;
    assert_eq!(answer[..2], ["refused", "not-permitted"]);
    assert_eq!(server.ask(&["EXISTS", "s"]).unwrap(), "0");
}
