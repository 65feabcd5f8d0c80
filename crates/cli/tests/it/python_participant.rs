//! The participant in `examples/participant`, run as it is: it keeps the fence with nothing but the SQL of `docs/inbox.md`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::json;
use tempfile::TempDir;

use crate::http;
use crate::program::Server;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/participant")
        .join(name)
        .canonicalize()
        .unwrap()
}

/// The participant's process, and its database in a folder of its own.
struct Slots {
    folder: TempDir,
    child: Child,
    port: u16,
}

impl Slots {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (child, port) = Self::spawn(&folder, 0);
        Self { folder, child, port }
    }

    fn spawn(folder: &TempDir, port: u16) -> (Child, u16) {
        let mut child = Command::new("python3")
            .args(["-B".into(), example("slots.py"), folder.path().join("slots.db"), port.to_string().into()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("python3 is not installed; install it: apt-get install python3");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        (child, port.unwrap_or_else(|| panic!("it said {line:?}")))
    }

    /// `kill -9`, and the same again.
    fn crash(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.child, _) = Self::spawn(&self.folder, self.port);
    }

    fn free(&self) -> i64 {
        let url = format!("http://127.0.0.1:{}/days/mon", self.port);
        http::call("GET", &url, &[], "").1["free"].as_i64().unwrap()
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What the way to the participant does with a request.
enum Way {
    Open,
    /// It arrives only when the test lets it.
    Late,
    /// It arrives, and its answer does not.
    AnswerLost,
}

/// Between engine and participant, at an address of its own.
#[derive(Clone)]
struct Between {
    address: SocketAddr,
    late: Arc<Late>,
}

#[derive(Default)]
struct Late {
    /// How many wait, whether they may go on, and what each was answered.
    state: Mutex<(usize, bool, Vec<String>)>,
    changed: Condvar,
}

impl Between {
    fn start(port: u16, way: impl Fn(&str) -> Way + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let between = Self { address: listener.local_addr().unwrap(), late: Arc::default() };
        let (late, way) = (between.late.clone(), Arc::new(way));
        // Threads of a test's process end with it.
        std::thread::spawn(move || {
            for engine in listener.incoming().map_while(Result::ok) {
                let (late, way) = (late.clone(), way.clone());
                std::thread::spawn(move || while pass(&engine, port, &late, way.as_ref()).is_some() {});
            }
        });
        between
    }

    /// Waits until a request is held.
    fn wait_for_late(&self) {
        let state = self.late.state.lock().unwrap();
        drop(self.late.changed.wait_while(state, |state| state.0 == 0).unwrap());
    }

    /// Lets the late ones arrive, and gives what they were answered.
    fn let_late_arrive(&self) -> Vec<String> {
        let mut state = self.late.state.lock().unwrap();
        state.1 = true;
        self.late.changed.notify_all();
        let state = self.late.changed.wait_while(state, |(waiting, _, answers)| answers.len() < *waiting);
        state.unwrap().2.clone()
    }
}

/// Passes one request on, and its answer back; `None` when the connection is over.
fn pass(mut engine: &TcpStream, port: u16, late: &Late, way: &dyn Fn(&str) -> Way) -> Option<()> {
    let request = message(&mut engine)?;
    let way = way(request.lines().next()?);
    let is_late = match (way, request.contains("visit:late")) {
        (Way::AnswerLost, _) => {
            let _ = answer(&request, port);
            return None;
        }
        (Way::Late, true) => true,
        (Way::Late, false) | (Way::Open, _) => false,
    };
    if is_late {
        let mut state = late.state.lock().unwrap();
        state.0 += 1;
        late.changed.notify_all();
        drop(late.changed.wait_while(state, |state| !state.1).unwrap());
    }
    let answered = answer(&request, port)?;
    if is_late {
        late.state.lock().unwrap().2.push(answered.clone());
        late.changed.notify_all();
    }
    engine.write_all(answered.as_bytes()).ok()
}

fn answer(request: &str, port: u16) -> Option<String> {
    let mut participant = TcpStream::connect(("127.0.0.1", port)).ok()?;
    participant.write_all(request.as_bytes()).ok()?;
    message(&mut participant)
}

/// One message with its head, and a body of the length that it says.
fn message(from: &mut impl std::io::Read) -> Option<String> {
    let mut from = BufReader::with_capacity(1, from);
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let begin = text.len();
        from.read_line(&mut text).ok().filter(|read| *read > 0)?;
        let line = text[begin..].trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    Some(text + &String::from_utf8(body).ok()?)
}

/// An engine with the example's definition, impatient as tests are.
fn start(slots: SocketAddr) -> Server {
    let server = Server::start(&format!("[participants.slots]\nurl = \"http://{slots}\"\n"));
    let impatient = "[defaults]\ntimeout = \"500ms\"\n\
        retry = { initial = \"50ms\", max_interval = \"200ms\", max_attempts = 20, budget = \"60s\" }\n\
        on_unknown = { queries = 2, interval = \"50ms\", verify = [\"200ms\"] }\n";
    let definition = std::fs::read_to_string(example("visit.toml")).unwrap();
    server.define(&definition.replacen(
        "[participants.slots]",
        &format!("{impatient}[participants.slots]"),
        1,
    ));
    server
}

fn input(mail: &str) -> String {
    json!({"day": "mon", "mail": mail}).to_string()
}

#[test]
fn slots_are_taken_once_and_given_back_once_whatever_happens_on_the_way() {
    let slots = Slots::start();
    let lost = Mutex::new(std::collections::HashSet::new());
    // The answer to the first request of each kind is lost.
    let between =
        Between::start(slots.port, move |line| match lost.lock().unwrap().insert(line.to_owned()) {
            true => Way::AnswerLost,
            false => Way::Open,
        });
    let server = start(between.address);
    let run = |id: &str, mail: &str, day: &str| {
        let input = json!({"day": day, "mail": mail}).to_string();
        server.cli(&["-o", "json", "saga", "start", "visit", id, "--input", &input, "--wait", "60s"])
    };
    let booked = run("visit:1", "v@example.org", "mon").exits(0).json();
    assert_eq!(booked["steps"][0]["serial"], "slot-1", "{booked:#}");
    assert_eq!(slots.free(), 999);
    let undone = run("visit:2", "nowhere", "mon").exits(8).json();
    assert_eq!(undone["steps"][0]["status"], "compensated", "{undone:#}");
    assert_eq!(slots.free(), 999);
    let refused = run("visit:3", "v@example.org", "sun").exits(8).json();
    assert_eq!(refused["steps"][0]["reason"], "no slot is free", "{refused:#}");
}

#[test]
fn an_action_that_arrives_after_it_was_undone_is_refused() {
    let slots = Slots::start();
    let between = Between::start(slots.port, |line| match line.starts_with("POST /slots ") {
        true => Way::Late,
        false => Way::Open,
    });
    let server = start(between.address);
    server.cli(&["saga", "start", "visit", "visit:late", "--input", &input("v@example.org")]).exits(0);
    between.wait_for_late();
    server.cli(&["saga", "cancel", "visit:late", "--reason", "it takes too long"]).exits(0);
    let wait = [
        "-o",
        "json",
        "saga",
        "start",
        "visit",
        "visit:late",
        "--input",
        &input("v@example.org"),
        "--wait",
        "60s",
    ];
    let ended = server.cli(&wait).exits(8).json();
    assert_eq!(
        (&ended["status"], &ended["steps"][0]["knowledge"]),
        (&json!("compensated"), &json!("sealed"))
    );
    for answer in between.let_late_arrive() {
        assert!(answer.starts_with("HTTP/1.1 422 ") && answer.contains("before it arrived"), "{answer}");
    }
    assert_eq!(slots.free(), 1000);
}

#[test]
fn a_participant_that_is_killed_again_and_again_loses_and_doubles_nothing() {
    const VISITS: usize = 60;
    let mut slots = Slots::start();
    let server = start(SocketAddr::from(([127, 0, 0, 1], slots.port)));
    for nth in 0..VISITS {
        let mail = if nth % 3 == 0 { "nowhere" } else { "v@example.org" };
        server.cli(&["saga", "start", "visit", &format!("visit:{nth}"), "--input", &input(mail)]).exits(0);
        if nth % 10 == 5 {
            slots.crash();
        }
    }
    for nth in 0..VISITS {
        let (mail, code) = if nth % 3 == 0 { ("nowhere", 8) } else { ("v@example.org", 0) };
        let id = format!("visit:{nth}");
        server.cli(&["saga", "start", "visit", &id, "--input", &input(mail), "--wait", "60s"]).exits(code);
    }
    assert_eq!(slots.free(), 1000 - i64::try_from(VISITS - VISITS / 3).unwrap());
}
