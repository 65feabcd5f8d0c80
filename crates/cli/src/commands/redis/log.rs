//! `amends redis log …`: begin, commit, compensate, look.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use amends_redis::{
    Answer, Begin, BusinessId, Commands, Commit, Compensate, Guard, Intent, Listed, Log, Malformed, Options,
    Record, Refusal, Status, Which,
};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::failure;
use crate::args::duration;
use crate::exit::{Exit, Failure};
use crate::output::{Output, say};
use crate::table::Table;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a record as pending, and run commands in the same step
    Begin(BeginOptions),
    /// Mark a record as committed: it is never undone then
    Commit {
        /// The business id, such as an order number
        id: OsString,
    },
    /// Run the rollback of a record and mark it, in one step
    Compensate {
        /// The business id
        id: OsString,
    },
    /// Show a record
    Show {
        /// The business id
        id: OsString,
    },
    /// List pending records, by the time at which a scanner undoes them
    List {
        /// Those that need a person instead
        #[arg(long, conflicts_with = "settled")]
        parked: bool,
        /// Those that are committed or compensated instead
        #[arg(long)]
        settled: bool,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
}

/// Commands are quoted as in redis-cli: 'HSET user:1 name "two words"'.
#[derive(Debug, Args)]
pub(crate) struct BeginOptions {
    /// The business id, such as an order number
    id: OsString,
    /// A command that undoes it, such as 'HINCRBY balance:1001 amount 100'; several run in order
    #[arg(long, value_name = "COMMAND", required = true)]
    rollback: Vec<String>,
    // Not a doc comment: rustdoc takes [field] for a link.
    #[arg(
        long,
        value_name = "GUARD",
        help = "What must hold for the rollback: 'EQ key [field] value', 'MIN key [field] n' or 'EXISTS key [field]'"
    )]
    rollback_guard: Vec<String>,
    /// A command to run now
    #[arg(long, value_name = "COMMAND")]
    forward: Vec<String>,
    /// What must hold for it to begin
    #[arg(long, value_name = "GUARD")]
    forward_guard: Vec<String>,
    /// After how long a scanner undoes it
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

/// Runs one of the commands.
pub(crate) async fn run(command: Command, url: &str, output: Output) -> Result<Exit, Failure> {
    let connect = async || Log::connect(url, Options::default()).await.map_err(|e| failure(&e));
    match command {
        Command::Begin(options) => {
            let (id, intent) = (id(options.id.clone())?, intent(&options)?);
            let begin = connect().await?.begin(&id, &intent).await.map_err(|e| failure(&e))?;
            show_begin(&id, begin, output)
        }
        Command::Commit { id: raw } => {
            let id = id(raw)?;
            match connect().await?.commit(&id).await.map_err(|e| failure(&e))? {
                Commit::Committed { at } => settled(&id, "committed", at, &[], output),
                Commit::Compensated { at } => Err(conflict(&id, "was compensated", at)),
                Commit::Refused(refusal) => Err(refused(&id, &refusal)),
                Commit::Absent => Err(absent(&id)),
            }
        }
        Command::Compensate { id: raw } => {
            let id = id(raw)?;
            match connect().await?.compensate(&id).await.map_err(|e| failure(&e))? {
                Compensate::Compensated { at, answers } => settled(&id, "compensated", at, &answers, output),
                Compensate::Committed { at } => Err(conflict(&id, "was committed", at)),
                Compensate::Refused(refusal) => Err(refused(&id, &refusal)),
                Compensate::Absent => Err(absent(&id)),
            }
        }
        Command::Show { id: raw } => {
            let id = id(raw)?;
            let record =
                connect().await?.show(&id).await.map_err(|e| failure(&e))?.ok_or_else(|| absent(&id))?;
            let value = record_json(&record);
            output.one(&value, || lines(&value))?;
            Ok(Exit::Done)
        }
        Command::List { parked, settled, limit } => {
            let which = match (parked, settled) {
                (true, _) => Which::Parked,
                (false, true) => Which::Settled,
                (false, false) => Which::Pending,
            };
            list(&connect().await?, which, limit, output).await
        }
    }
}

async fn list(log: &Log, which: Which, limit: usize, output: Output) -> Result<Exit, Failure> {
    let mut items = Vec::new();
    for Listed { id, at_ms } in log.list(which, limit).await.map_err(|e| failure(&e))? {
        // Between the list and this look it may have been removed.
        let record = log.show(&id).await.map_err(|e| failure(&e))?;
        let status = record.as_ref().map_or("absent", |record| record.status.word());
        let attempts = record.as_ref().map(|record| record.attempts);
        let reason = record.as_ref().and_then(|record| record.reason.clone());
        items.push(json!({
            "id": id.to_string(), "status": status, "at": time_ms(at_ms), "attempts": attempts, "reason": reason,
        }));
    }
    let found = items.len();
    output.list(&json!({ "items": items, "next": null }), |items| {
        let at = match which {
            Which::Pending => "DUE",
            Which::Parked => "SINCE",
            Which::Settled => "SETTLED",
        };
        let mut table = Table::new(&["ID", "STATUS", at, "ATTEMPTS", "REASON"]);
        for item in items {
            table.row(["id", "status", "at", "attempts", "reason"].map(|name| text(&item[name])));
        }
        table.without_empty_columns()
    })?;
    if !output.is_for_programs() && found > 0 && which == Which::Parked {
        say("put right what the reason names, then `amends redis log compensate ID`, or `commit ID`");
    }
    Ok(Exit::Done)
}

fn show_begin(id: &BusinessId, begin: Begin, output: Output) -> Result<Exit, Failure> {
    match begin {
        Begin::Begun(begun) => {
            let value = json!({
                "id": id.to_string(), "outcome": "begun", "status": begun.status.word(), "created_at": time(begun.created_at),
                "expire_at": time(begun.expire_at), "answers": answers(&begun.answers),
            });
            output.one(&value, || format!("{id} is {}{}\n", begun.status.word(), shown(&begun.answers)))?;
            if !output.is_for_programs() && begun.status == Status::Pending {
                let seconds = begun.timeout.as_secs_f64();
                say(&format!(
                    "commit or compensate it: after {seconds} s a scanner (`amends redis scan`) undoes it"
                ));
            }
            Ok(Exit::Done)
        }
        Begin::Different => Err(Failure::new(
            Exit::Conflict,
            format!("{id} was begun with other content"),
            "`amends redis log show ID` shows it; another operation needs another id",
        )),
        Begin::Refused(refusal) => Err(refused(id, &refusal)),
    }
}

fn settled(
    id: &BusinessId,
    outcome: &str,
    at: u64,
    given: &[Answer],
    output: Output,
) -> Result<Exit, Failure> {
    let value =
        json!({ "id": id.to_string(), "outcome": outcome, "at": time(at), "answers": answers(given) });
    output.one(&value, || format!("{id} is {outcome} since {}{}\n", time(at), shown(given)))?;
    Ok(Exit::Done)
}

fn conflict(id: &BusinessId, what: &str, at: u64) -> Failure {
    Failure::new(
        Exit::Conflict,
        format!("{id} {what} at {}", time(at)),
        "nothing was changed; that stands for good",
    )
}

fn refused(id: &BusinessId, refusal: &Refusal) -> Failure {
    let (exit, next) = if refusal.reason.may_pass() {
        (Exit::Conflict, "nothing was changed: put right what is named, then repeat the command")
    } else {
        (Exit::NeedsPerson, "nothing was changed: `amends redis log show ID` shows the record")
    };
    Failure::new(exit, format!("{id}: {refusal}"), next)
}

fn absent(id: &BusinessId) -> Failure {
    Failure::new(
        Exit::NotFound,
        format!("there is no record {id}"),
        "check the id: it was never begun, or was settled and removed after the retention",
    )
}

fn id(raw: OsString) -> Result<BusinessId, Failure> {
    BusinessId::new(raw.into_vec()).map_err(|e| failure(&e))
}

fn intent(options: &BeginOptions) -> Result<Intent, Failure> {
    let wrong = |e: Malformed| Failure::usage(e.to_string(), "correct what is named; nothing was sent");
    let commands = |texts: &[String]| Commands::parse(texts.iter().map(String::as_str)).map_err(wrong);
    let guards = |texts: &[String]| {
        texts.iter().map(|text| Guard::parse(text.as_bytes())).collect::<Result<Vec<_>, _>>().map_err(wrong)
    };
    Ok(Intent::new(commands(&options.rollback)?)
        .rollback_guard(guards(&options.rollback_guard)?)
        .forward(commands(&options.forward)?)
        .forward_guard(guards(&options.forward_guard)?)
        .within(options.timeout))
}

fn record_json(record: &Record) -> Value {
    let commands = record.rollback.as_slice().iter().map(ToString::to_string).collect::<Vec<_>>();
    let guards = record.guard.iter().map(ToString::to_string).collect::<Vec<_>>();
    let timeout_ms = record.timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok());
    json!({
        "id": record.id.to_string(),
        "status": record.status.word(),
        "created_at": record.created_at.map(time),
        "expire_at": record.expire_at.map(time),
        "timeout_ms": timeout_ms,
        "settled_at": record.settled_at.map(time),
        "rollback": commands,
        "guard": guards,
        "begun": answers(&record.begun),
        "result": answers(&record.result),
        "attempts": record.attempts,
        "reason": record.reason,
        "parked": record.parked,
        "rollback_cmd": record.rollback_cmd.as_ref().map(|raw| String::from_utf8_lossy(raw)),
    })
}

/// One member a line, without what is empty.
fn lines(value: &Value) -> String {
    let mut table = Table::new(&["FIELD", "VALUE"]);
    for (name, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Array(items) => items.iter().for_each(|item| table.row([name.as_str(), &text(item)])),
            value => {
                let text = text(value);
                if !text.is_empty() {
                    table.row([name.as_str(), &text]);
                }
            }
        }
    }
    table.to_string()
}

fn answers(answers: &[Answer]) -> Vec<Value> {
    let value = |answer: &Answer| match answer {
        Answer::Ok => json!("OK"),
        Answer::Integer(number) => json!(number),
        Answer::Bytes(bytes) => json!(String::from_utf8_lossy(bytes)),
        Answer::Nothing => Value::Null,
    };
    answers.iter().map(value).collect()
}

fn shown(given: &[Answer]) -> String {
    if given.is_empty() {
        return String::new();
    }
    let words: Vec<_> = answers(given).iter().map(ToString::to_string).collect();
    format!("; its commands answered {}", words.join(", "))
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn time(seconds: u64) -> String {
    time_ms(seconds.saturating_mul(1_000))
}

fn time_ms(milliseconds: u64) -> String {
    let known = i64::try_from(milliseconds).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    known.map_or_else(|| milliseconds.to_string(), |time| time.to_string())
}
