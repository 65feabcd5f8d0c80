//! Runs a table: reads definitions and rows, compares what the machine answers, and checks what must hold of every run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use amends_core::definition::{check_input, from_toml};
use amends_core::{
    Definition, Entry, Jitter, Now, Saga, SagaId, Submission, Time, decide, replay, status, submit,
};

use super::words;

/// Where the tables are.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/rules")
}

/// Runs the table of this name. In a file, `definition NAME` begins a definition in TOML that ends with `end`; `table DEFINITION: what it shows`
/// begins a table; other lines that are not rows are remarks.
pub(crate) fn check(name: &str) {
    let path = folder().join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let answered = run(&text);
    if std::env::var_os("UPDATE_TABLES").is_some() {
        std::fs::write(&path, &answered).expect("the table can be written");
        return;
    }
    for (line, (wanted, got)) in text.lines().zip(answered.lines()).enumerate() {
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(wanted), squeeze(got), "{}:{}", path.display(), line + 1);
    }
    assert_eq!(text.lines().count(), answered.lines().count(), "{}", path.display());
}

fn run(text: &str) -> String {
    let mut definitions: BTreeMap<String, Arc<Definition>> = BTreeMap::new();
    let mut out = String::new();
    let mut reading: Option<(String, String)> = None;
    let mut playing: Option<Play> = None;
    for line in text.lines() {
        if let Some((name, toml)) = &mut reading {
            if line == "end" {
                let checked =
                    from_toml(toml).unwrap_or_else(|problems| panic!("definition {name}: {problems:#?}"));
                definitions.insert(name.clone(), checked.definition);
                reading = None;
            } else {
                let _ = writeln!(toml, "{line}");
            }
        } else if let Some(name) = line.strip_prefix("definition ") {
            reading = Some((name.into(), String::new()));
        } else if let Some(title) = line.strip_prefix("table ") {
            let name = title.split(':').next().unwrap_or_default();
            let definition = definitions.get(name).unwrap_or_else(|| panic!("no definition `{name}`"));
            playing = Some(Play::new(definition.clone()));
        } else if let Some((input, _)) = line.split_once('|') {
            let play = playing.as_mut().expect("a table begins before its rows");
            let answer = play.row(input.trim());
            let _ = writeln!(out, "{:<44} | {answer}", input.trim_end());
            continue;
        }
        let _ = writeln!(out, "{line}");
    }
    out
}

/// One saga being played through.
struct Play {
    definition: Arc<Definition>,
    saga: Option<Saga>,
    journal: Vec<Entry>,
    now: Time,
}

impl Play {
    fn new(definition: Arc<Definition>) -> Self {
        Self { definition, saga: None, journal: Vec::new(), now: Time(1_000_000_000) }
    }

    fn row(&mut self, input: &str) -> String {
        let mut input = input;
        if let Some(rest) = input.strip_prefix('+') {
            let (duration, rest) = rest.split_once(' ').expect("an input behind the time");
            self.now = self.now.plus_ms(words::duration(duration));
            input = rest;
        }
        let now = Now { at: self.now, jitter: Jitter::NONE };
        let decision = match &self.saga {
            None => {
                let accepting = input == "submit accepting";
                assert!(accepting || input == "submit", "a table begins with `submit`, not with `{input}`");
                let id = SagaId::new("order:1").expect("an id");
                let given = serde_json::json!({"sku": "A", "amount": 5});
                let claims = check_input(&self.definition, &id, &given).expect("the input fits");
                let submission =
                    Submission { id, input: given, accepting, trace: None, epoch: 1, who: "test".into() };
                submit(self.definition.clone(), submission, claims, now)
            }
            Some(saga) => {
                let given = words::input(saga, input);
                match decide(saga, &given, now) {
                    Ok(decision) => decision,
                    Err(refusal) => return format!("refused: {:?}", refusal.problem),
                }
            }
        };
        self.journal.extend(decision.entries.iter().cloned());
        let entries: Vec<_> =
            decision.entries.iter().map(|entry| words::entry(&self.definition, entry)).collect();
        let effects: Vec<_> = decision
            .effects
            .iter()
            .map(|effect| words::effect(&self.definition, *effect, self.now))
            .collect();
        let status = status::status(&decision.after);
        let state = status::business_state(&decision.after);
        self.saga = Some(decision.after);
        self.must_hold();
        format!("{} {state} | {} | {}", status.as_str(), entries.join("; "), effects.join(", "))
            .trim_end()
            .to_owned()
    }

    /// What must hold after every row of every table.
    fn must_hold(&self) {
        let saga = self.saga.as_ref().expect("a saga");
        let replayed = replay(self.definition.clone(), &self.journal).expect("the journal can be read");
        assert_eq!(&replayed, saga, "replay and live differ");
        for entry in &self.journal {
            let text = serde_json::to_string(entry).expect("entries encode");
            let back: Entry = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(&back, entry, "an entry does not survive its encoding");
        }
    }
}
