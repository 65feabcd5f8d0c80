//! What commands print: data on stdout in the format asked for, words on stderr.

use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use crate::exit::Failure;
use crate::table::Table;

/// How data is written to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns, for people.
    Table,
    /// One JSON document, indented.
    Json,
    /// One JSON document a line: each item of a list on its own.
    Jsonl,
}

/// Writes data to stdout in one format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        Self { format }
    }

    /// Whether a program reads the output, rather than a person.
    pub(crate) fn is_for_programs(self) -> bool {
        match self.format {
            Format::Table => false,
            Format::Json | Format::Jsonl => true,
        }
    }

    /// Whether items of a stream are written one a line as they come.
    pub(crate) fn streams(self) -> bool {
        match self.format {
            Format::Json => false,
            Format::Table | Format::Jsonl => true,
        }
    }

    /// Writes one thing.
    pub(crate) fn one(self, value: &Value, text: impl FnOnce() -> String) -> Result<(), Failure> {
        match self.format {
            Format::Table => print(&text()),
            Format::Json => print(&format!("{value:#}\n")),
            Format::Jsonl => print(&format!("{value}\n")),
        }
    }

    /// Writes a page of a list (`{"items": […], …}`).
    pub(crate) fn list(self, page: &Value, table: impl FnOnce(&[Value]) -> Table) -> Result<(), Failure> {
        let items = page["items"].as_array().map_or(&[][..], Vec::as_slice);
        match self.format {
            Format::Table => print(&table(items).to_string()),
            Format::Json => print(&format!("{page:#}\n")),
            Format::Jsonl => print(&items.iter().map(|item| format!("{item}\n")).collect::<String>()),
        }
    }
}

/// Writes text to stdout. A reader that has gone away (`| head`) is no error: there is nobody left to tell.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::failed(
            format!("stdout cannot be written: {error}"),
            "check where the output is redirected to",
        )),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes a record as one line of JSON, its members in the order in which they are declared.
pub(crate) fn print_line(record: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(record)
        .map_err(|e| Failure::failed(format!("the result cannot be written as JSON: {e}"), "report this"))?;
    print(&(line + "\n"))
}

/// Says something to the person at the terminal, on stderr. If nobody can hear it, nothing is lost.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A line on stderr that is written over while work goes on; only on a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    on: bool,
}

impl Progress {
    /// `wanted`: false keeps it quiet even on a terminal.
    pub(crate) fn new(wanted: bool) -> Self {
        Self { on: wanted && io::stderr().is_terminal() }
    }

    /// Replaces the line.
    pub(crate) fn show(&self, text: &str) {
        if self.on {
            // Back to the start of the line, the text, and nothing behind it.
            let _ = write!(io::stderr().lock(), "\r{text}\x1b[K").and_then(|()| io::stderr().flush());
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        self.show("");
    }
}
