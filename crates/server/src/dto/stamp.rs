//! Times on the wire.

use amends_core::Time;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// A point in time: RFC 3339, UTC, with milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stamp(pub(crate) Time);

impl Stamp {
    /// The present.
    pub(crate) fn now() -> Self {
        Self(Time(Timestamp::now().as_millisecond()))
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Times beyond the year 9999 come only from a clock gone wrong; the nearest that can be written is shown.
        let at = Timestamp::from_millisecond(self.0.0).unwrap_or(if self.0.0 < 0 {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        });
        f.write_str(&PRINTER.timestamp_to_string(&at))
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PartialSchema for Stamp {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339, UTC, with milliseconds."))
            .examples(["2026-01-31T09:30:00.125Z"])
            .into()
    }
}

impl ToSchema for Stamp {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_in_utc_with_milliseconds() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_769_851_800_125, "2026-01-31T09:30:00.125Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Stamp(Time(ms)).to_string(), text);
        }
        assert!(Stamp(Time(i64::MAX)).to_string().starts_with("9999-"));
    }
}
