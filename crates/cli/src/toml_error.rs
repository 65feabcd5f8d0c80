//! Where in a TOML file something is wrong, and what to do about it, without quoting the file: lines may hold secrets.

/// Place (`line 7, [store] url: ` or empty), reason and remedy of an error.
pub(crate) fn explain(error: &toml::de::Error, text: &str) -> (String, String, &'static str) {
    let place = error.span().map_or(String::new(), |span| place(text, span.start));
    let reason = error.message().replace('\n', ", ");
    let remedy = if reason.starts_with("unknown field") {
        "correct the name or remove it"
    } else if reason.starts_with("missing field") {
        "add it"
    } else {
        "correct the value; docs/definition.md and the README show each field"
    };
    (place, reason, remedy)
}

/// The line of a member of `[participants.NAME]`, as [`explain`] writes places; empty where it cannot be told.
pub(crate) fn line_of_key(text: &str, participant: &str, field: &str) -> String {
    let key = field.split('.').next().unwrap_or(field);
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        if let Some(section) = section(line) {
            inside = section
                .strip_prefix("participants.")
                .is_some_and(|name| name.trim_matches('"') == participant);
        } else if inside && key_of(line) == Some(key) {
            return format!("line {}, ", number + 1);
        }
    }
    String::new()
}

/// `line 7, [store] url: ` of a byte offset.
fn place(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let number = before.matches('\n').count();
    let lines: Vec<&str> = text.lines().take(number + 1).collect();
    let here = lines.get(number).copied().unwrap_or_default();
    let section = lines.iter().rev().find_map(|line| section(line)).map(|name| format!("[{name}]"));
    let key = key_of(here).filter(|_| self::section(here).is_none()).map(str::to_owned);
    let names = [section, key].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let names = if names.is_empty() { names } else { format!(", {names}") };
    format!("line {}{names}: ", number + 1)
}

fn section(line: &str) -> Option<&str> {
    let line = line.trim();
    let end = line.rfind(']')?;
    line.starts_with('[').then(|| line[1..end].trim_matches(['[', ']', ' ']))
}

fn key_of(line: &str) -> Option<&str> {
    line.split_once('=').map(|(key, _)| key.trim().trim_matches('"'))
}
