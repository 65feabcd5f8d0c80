//! Sagas begun in callers' transactions on a real PostgreSQL, and what can happen to engine and callers meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use amends_testbed::postgres::Postgres;
use serde_json::{Value, json};

use crate::http;
use crate::participants::Participants;
use crate::program::Server;
use crate::sql::Sql;

const SEAT: &str = r#"
saga = "seat"
version = 1
claims = ["seat:${input.seat}"]
[participants.hall]
idempotency = "replay"
[[step]]
name = "hold"
action = { to = "hall", post = "/holds", body = { seat = "${input.seat}" } }
compensation = { post = "/holds/release" }
"#;

struct World {
    postgres: Postgres,
    participants: Participants,
    server: Server,
    sql: Sql,
}

/// A server over PostgreSQL whose one participant says yes, unless it is closed: then it says that it is busy.
fn world(is_closed: &Arc<AtomicBool>) -> World {
    let is_closed = is_closed.clone();
    let participants = Participants::start(move |_| {
        let busy = is_closed.load(Ordering::SeqCst);
        if busy { (429, json!({})) } else { (200, json!({})) }
    });
    let postgres = Postgres::start().unwrap();
    let config = participants.config(&["hall"]);
    let server = Server::start(&format!("[store]\nurl = \"{}\"\n{config}", postgres.url()));
    let sql = Sql::postgres(&postgres.url());
    World { postgres, participants, server, sql }
}

fn open() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

fn submit(id: &str, input: &Value) -> String {
    format!(
        "SELECT amends.submit('seat', '{}', '{}')",
        id.replace('\'', "''"),
        input.to_string().replace('\'', "''")
    )
}

/// Only what hangs is ended by it.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl World {
    fn status(&self, id: &str) -> String {
        let id = percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC);
        let (status, body) = http::call("GET", &format!("{}/v1/sagas/{id}", self.server.url), &[], "");
        if status == 404 {
            return "none".to_owned();
        }
        body["status"].as_str().unwrap().to_owned()
    }

    fn comes_to(&self, id: &str, status: &str) {
        until(&format!("{id} is {status}, but {}", self.status(id)), || self.status(id) == status);
    }

    fn is_settled(&self) {
        until("nothing waits", || {
            self.postgres.ask("SELECT count(*) FROM amends.submission").unwrap() == "0"
        });
    }
}

/// At whatever point of the way from the callers' commits to their sagas.
#[test]
fn killed_engines_lose_and_double_nothing() {
    let mut world = world(&open());
    world.server.define(SEAT);
    let mut expected = Vec::new();
    for round in 0..4 {
        world.sql.run("BEGIN").unwrap();
        for nth in 0..150 {
            let id = format!("s:{round}:{nth}");
            world.sql.run(&submit(&id, &json!({ "seat": id }))).unwrap();
            expected.push(id);
        }
        world.sql.run("COMMIT").unwrap();
        // Some are sagas by now, some are on their way, some wait.
        let goal = (round * 150 + 40 * round).to_string();
        until("some are taken up", || {
            world.postgres.ask(&format!("SELECT count(*) >= {goal} FROM amends.saga")).unwrap() == "t"
        });
        world.server.kill();
        world.server.start_again();
        // A saga that kills three engines in a row would be a person's.
        for id in &expected[round * 150..] {
            world.comes_to(id, "completed");
        }
    }
    world.is_settled();
    let sagas = world.postgres.ask("SELECT count(*), count(DISTINCT id) FROM amends.saga").unwrap();
    assert_eq!(sagas, format!("{0}|{0}", expected.len()));
    // Each of them was begun once: its journal has one first entry, and its effect one key.
    let mut keys: Vec<String> = world.participants.calls().into_iter().map(|call| call.key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), expected.len());
}

/// Callers by SQL and by the API, with two inputs for one id: one input wins, and nobody is told otherwise.
#[test]
fn of_fifty_racing_callers_one_input_wins() {
    let world = world(&open());
    world.server.define(SEAT);
    for round in 0..3 {
        let id = format!("race:{round}");
        let callers: Vec<_> = (0..50)
            .map(|caller| {
                let (id, url, api) = (id.clone(), world.postgres.url(), world.server.url.clone());
                let input = json!({ "seat": format!("{round}:{}", caller % 2) });
                std::thread::spawn(move || {
                    let is_ok = if caller % 5 == 4 {
                        let body = json!({ "saga": "seat", "id": id, "input": input }).to_string();
                        let head = [("Content-Type", "application/json")];
                        let (status, body) = http::call("POST", &format!("{api}/v1/sagas"), &head, &body);
                        assert!([200, 201, 422].contains(&status), "{status} {body}");
                        status != 422
                    } else {
                        match Sql::postgres(&url).run(&submit(&id, &input)) {
                            Ok(_) => true,
                            Err(error) => {
                                assert!(error.contains("another definition or input"), "{error}");
                                false
                            }
                        }
                    };
                    (caller % 2, is_ok, caller % 5 == 4)
                })
            })
            .collect();
        let told: Vec<(usize, bool, bool)> =
            callers.into_iter().map(|caller| caller.join().unwrap()).collect();
        world.comes_to(&id, "completed");
        let (_, body) = http::call("GET", &format!("{}/v1/sagas/{id}", world.server.url), &[], "");
        let winner = if body["input"]["seat"] == format!("{round}:0") { 0 } else { 1 };
        // One that was told yes and lost, by API and SQL at the very same moment, is shown as refused once an engine has looked.
        until("all are looked at", || {
            world.postgres.ask("SELECT count(*) FROM amends.submission WHERE due_at IS NOT NULL").unwrap()
                == "0"
        });
        let refused = format!("SELECT count(*) FROM amends.submission WHERE id = '{id}' AND due_at IS NULL");
        let is_shown = || world.postgres.ask(&refused).unwrap() != "0";
        for (input, is_ok, _) in &told {
            assert!(*is_ok == (*input == winner) || is_shown(), "{told:?}, and {winner} won");
        }
        assert!(told.iter().any(|(input, is_ok, _)| *input == winner && *is_ok), "{told:?}");
    }
}

#[test]
fn while_another_saga_holds_its_claim_it_is_accepting_and_then_goes_on() {
    let is_closed = Arc::new(AtomicBool::new(true));
    let mut world = world(&is_closed);
    world.server.define(SEAT);
    world.server.cli(&["saga", "start", "seat", "holder", "--input", "{\"seat\":\"1A\"}"]).exits(0);
    world.sql.run(&submit("s", &json!({ "seat": "1A" }))).unwrap();
    world.comes_to("s", "accepting");
    // One that is held freezes nobody else's.
    world.sql.run(&submit("t", &json!({ "seat": "2B" }))).unwrap();
    until("it has begun", || world.status("t") == "running");
    is_closed.store(false, Ordering::SeqCst);
    for id in ["holder", "s", "t"] {
        world.comes_to(id, "completed");
    }
    world.is_settled();
}

#[test]
fn without_a_definition_it_waits_visibly_and_one_that_does_not_fit_is_dead() {
    let mut world = world(&open());
    world.sql.run(&submit("s", &json!({ "seat": "1A" }))).unwrap();
    world.sql.run(&submit("odd", &json!({ "chair": "1A" }))).unwrap();
    let metric = |world: &World, line: &str| {
        http::text("GET", &format!("{}/metrics", world.server.url), &[], "")
            .1
            .lines()
            .any(|found| found == line)
    };
    until("it is counted", || metric(&world, "amends_store_submissions_put_off 2"));
    let doctor = world.server.cli(&["-o", "json", "doctor", "--store", &world.postgres.url()]);
    assert!(doctor.out.contains("no definition seat is registered"), "{doctor:?}");
    assert_eq!(world.status("s"), "none");
    world.server.define(SEAT);
    world.comes_to("s", "completed");
    world.comes_to("odd", "dead");
    world.is_settled();
    until("nothing is counted", || metric(&world, "amends_store_submissions_waiting 0"));
}

/// Business ids of any kind come through SQL, engine and API as they are.
#[test]
fn hostile_ids_come_through() {
    let mut world = world(&open());
    world.server.define(SEAT);
    let longest = "é".repeat(128);
    let ids = [
        "a b",
        "it's",
        "\"q\"",
        "a/b?c#d%e",
        "'; DROP TABLE amends.saga; --",
        "..",
        "ünï 🔑",
        "\u{202e}x",
        &longest,
    ];
    for (nth, id) in ids.into_iter().enumerate() {
        world.sql.run(&submit(id, &json!({ "seat": nth }))).unwrap();
    }
    for id in ids {
        if id != ".." {
            world.comes_to(id, "completed");
        }
    }
    world.is_settled();
    for id in ["", "a\tb", &format!("{longest}x")] {
        assert!(world.sql.run(&submit(id, &json!({}))).is_err(), "{id:?}");
    }
    assert!(world.sql.run("SELECT amends.submit('seat', E'a\\u0000b', '{}')").is_err());
    assert!(world.sql.run("SELECT amends.submit('seat', 'n', '{\"seat\": \"\\u0000\"}')").is_err());
    let sagas = world.postgres.ask("SELECT count(*) FROM amends.saga WHERE status = 'completed'").unwrap();
    assert_eq!(sagas, ids.len().to_string());
}
