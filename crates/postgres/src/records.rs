//! Rows as one parameter: an array of a composite type costs the server less than an array for each column, which it would take apart one by one.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};

/// Values of a composite type, as the protocol has them.
#[derive(Debug, Default)]
pub(crate) struct Records {
    count: i32,
    bytes: Vec<u8>,
}

/// One of them that is being written. Its fields come in the order of the type's; the server refuses others.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    bytes: &'a mut Vec<u8>,
    begins: usize,
    fields: i32,
}

impl Records {
    /// One more.
    pub(crate) fn add(&mut self) -> Record<'_> {
        self.count += 1;
        let begins = self.bytes.len();
        // Its length and the number of its fields are known when it is complete.
        self.bytes.extend([0; 8]);
        Record { bytes: &mut self.bytes, begins, fields: 0 }
    }
}

impl Record<'_> {
    /// A bigint.
    pub(crate) fn int(self, value: impl Into<Option<i64>>) -> Self {
        let value = value.into().map(i64::to_be_bytes);
        self.field(&Type::INT8, value.as_ref().map(<[u8; 8]>::as_slice))
    }

    /// A text. The one character that PostgreSQL cannot hold stands for nothing that people read.
    pub(crate) fn text<'a>(self, value: impl Into<Option<&'a str>>) -> Self {
        match value.into() {
            Some(value) if value.contains('\0') => {
                self.field(&Type::TEXT, Some(crate::rows::text(value).as_bytes()))
            }
            value => self.field(&Type::TEXT, value.map(str::as_bytes)),
        }
    }

    /// A bytea.
    pub(crate) fn bytes(self, value: &[u8]) -> Self {
        self.field(&Type::BYTEA, Some(value))
    }

    /// A boolean.
    pub(crate) fn flag(self, value: bool) -> Self {
        self.field(&Type::BOOL, Some(&[u8::from(value)]))
    }

    fn field(mut self, of: &Type, value: Option<&[u8]>) -> Self {
        self.fields += 1;
        self.bytes.extend(of.oid().to_be_bytes());
        self.bytes.extend(value.map_or(-1, length).to_be_bytes());
        self.bytes.extend(value.unwrap_or_default());
        self
    }
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        let from = self.begins + 4;
        let length = length(&self.bytes[from..]);
        self.bytes[self.begins..from].copy_from_slice(&length.to_be_bytes());
        self.bytes[from..from + 4].copy_from_slice(&self.fields.to_be_bytes());
    }
}

/// Batches have a limit that is far below.
fn length(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).expect("invariant: no value of a batch has 2 GiB")
}

impl ToSql for Records {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Kind::Array(member) = of.kind() else { return Err("no array".into()) };
        out.extend_from_slice(&i32::from(self.count > 0).to_be_bytes());
        out.extend_from_slice(&0_i32.to_be_bytes());
        out.extend_from_slice(&member.oid().to_be_bytes());
        if self.count > 0 {
            out.extend_from_slice(&self.count.to_be_bytes());
            out.extend_from_slice(&1_i32.to_be_bytes());
        }
        out.extend_from_slice(&self.bytes);
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        matches!(of.kind(), Kind::Array(member) if matches!(member.kind(), Kind::Composite(_)))
    }

    to_sql_checked!();
}
