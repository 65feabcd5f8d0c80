//! Whether the functions are there, with the code that this version has.

use redis::Value;

use super::judge::{Finding, Severity};
use super::pairs;
use crate::client::{Client, Error, ErrorKind, Library, text};

const INSTALL: &str = "`amends redis install` loads them; so does whatever connects and may";

/// Looks for libraries on every primary. It loads nothing.
///
/// # Errors
/// If a server cannot be reached.
pub async fn functions(client: &Client, libraries: &[&Library]) -> Result<Vec<Finding>, Error> {
    let mut list = redis::cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg("amends_*").arg("WITHCODE");
    let answers = match client.on_each_primary(list).await {
        Ok(answers) => answers,
        Err(e) if e.kind == ErrorKind::Denied => {
            let detail =
                "this user may not look at functions: their code is sent with each call instead".to_owned();
            let what = "functions";
            return Ok(vec![Finding { severity: Severity::Fine, server: "-".into(), what, detail, fix: "" }]);
        }
        Err(e) => return Err(e),
    };
    let judged = answers.iter().map(|(server, answer)| {
        let loaded = read(answer);
        let is_loaded = |library: &&&Library| loaded.iter().any(|(name, _)| name == library.name);
        let is_other = |library: &&&Library| {
            loaded.iter().any(|(name, code)| name == library.name && *code != library.code())
        };
        let missing: Vec<&str> = libraries.iter().filter(|l| !is_loaded(l)).map(|l| l.name).collect();
        let other: Vec<&str> = libraries.iter().filter(is_other).map(|l| l.name).collect();
        let (severity, detail, fix) = match (missing.is_empty(), other.is_empty()) {
            (true, true) => (Severity::Fine, format!("{} libraries, as they should be", libraries.len()), ""),
            (false, _) => (Severity::Warn, format!("not loaded: {}", missing.join(", ")), INSTALL),
            (true, false) => (Severity::Warn, format!("with other code: {}", other.join(", ")), INSTALL),
        };
        Finding { severity, server: server.clone(), what: "functions", detail, fix }
    });
    Ok(judged.collect())
}

/// Names and codes of the libraries in an answer of `FUNCTION LIST`.
fn read(answer: &Value) -> Vec<(String, String)> {
    let Value::Array(libraries) = answer else { return Vec::new() };
    let field = |library: &Value, name: &str| {
        pairs(library).into_iter().find(|(key, _)| text(key) == name).map(|(_, value)| text(value))
    };
    let named = |library| Some((field(library, "library_name")?, field(library, "library_code")?));
    libraries.iter().filter_map(named).collect()
}
