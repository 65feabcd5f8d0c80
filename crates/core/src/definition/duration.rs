//! Durations as people write them: `500ms`, `3s`, `15m`, `24h`, `5d`.

/// The longest duration that can be written: ten years. Anything longer is a mistake in the unit.
pub const DURATION_MAX_MS: u64 = 3650 * DAY;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The units, from the longest.
const UNITS: [(&str, u64); 5] = [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)];

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDuration {
    /// Not a whole number followed by a unit.
    #[error("`{0}` is no duration: a whole number and one of the units ms, s, m, h, d, such as 3s")]
    Form(String),
    /// Nothing, or longer than [`DURATION_MAX_MS`].
    #[error("`{0}` is out of range: a duration is at least 1ms and at most 3650d")]
    Range(String),
}

/// Reads a duration, in milliseconds: a whole number and its unit, `ms`, `s`, `m`, `h` or `d`. The unit is never left out.
///
/// # Errors
/// [`BadDuration`] says what is wrong with the text.
pub fn parse_duration(text: &str) -> Result<u64, BadDuration> {
    let form = || BadDuration::Form(text.chars().take(40).collect());
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, unit_ms) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(form)?;
    if number.is_empty() {
        return Err(form());
    }
    let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    ms.filter(|ms| (1..=DURATION_MAX_MS).contains(ms))
        .ok_or_else(|| BadDuration::Range(text.chars().take(40).collect()))
}

/// Writes a duration so that [`parse_duration`] reads it: in the longest unit that needs no fraction.
#[must_use]
pub fn show_duration(ms: u64) -> String {
    let (name, unit_ms) = UNITS
        .into_iter()
        .find(|(_, unit_ms)| ms >= *unit_ms && ms.is_multiple_of(*unit_ms))
        .unwrap_or(("ms", 1));
    format!("{}{name}", ms / unit_ms)
}
