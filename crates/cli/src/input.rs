//! Files, standard input and JSON texts given on the command line.

use std::io::Read as _;

use serde_json::Value;

use crate::exit::{Exit, Failure};

/// The largest file read: larger than anything the server accepts, small enough to be read at once.
const BYTES_MAX: u64 = 16 << 20;

/// Reads a file, or standard input for `-`.
pub(crate) fn read(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let result = if file == "-" {
        std::io::stdin().lock().take(BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(BYTES_MAX + 1).read_to_string(&mut text))
    };
    let name = name(file);
    match result {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(Failure::new(
            Exit::Usage,
            format!("there is no file {name}"),
            "check the path; `-` reads standard input",
        )),
        Err(e) => Err(Failure::usage(
            format!("{name} cannot be read: {e}"),
            "check that it is a readable text file in UTF-8",
        )),
        Ok(_) if text.len() as u64 > BYTES_MAX => Err(Failure::usage(
            format!("{name} is larger than {BYTES_MAX} bytes"),
            "check that it is the file you meant",
        )),
        Ok(_) => Ok(text),
    }
}

/// A file's name in messages.
pub(crate) fn name(file: &str) -> String {
    if file == "-" { "standard input".to_owned() } else { file.to_owned() }
}

/// Reads a JSON text; numbers keep the text they are written in.
pub(crate) fn json(text: &str, whence: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|e| {
        Failure::usage(
            format!("{whence} is not JSON: {e}"),
            r#"give one JSON value, for example '{"amount": 100}'"#,
        )
    })
}
