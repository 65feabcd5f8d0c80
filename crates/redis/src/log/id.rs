//! The business id that names a record.

use std::fmt;

use crate::client::{Error, ErrorKind};

/// The most bytes of a business id.
pub const ID_BYTES_MAX: usize = 512;

/// What every record's key begins with.
pub(crate) const PREFIX: &[u8] = b"compensate_log:";

/// The id that the business knows an operation by, such as an order number: never a random one. Any bytes.
///
/// The record's key is `compensate_log:` and the id as it is. So braces in an id are a hash tag, as in any key: in a cluster
/// `order:789:{1001}` is in one slot with `balance:{1001}`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BusinessId(Vec<u8>);

impl BusinessId {
    /// Takes an id.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if it is empty or longer than [`ID_BYTES_MAX`].
    pub fn new(id: impl Into<Vec<u8>>) -> Result<Self, Error> {
        let id = id.into();
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            let length = id.len();
            return Err(Error::new(
                ErrorKind::Refused,
                format!(
                    "a business id has 1 to {ID_BYTES_MAX} bytes, and this one has {length}: use the order's number or the like"
                ),
            ));
        }
        Ok(Self(id))
    }

    /// The id of a record's key, if it is one.
    pub(crate) fn of_key(key: &[u8]) -> Option<Self> {
        Self::new(key.strip_prefix(PREFIX)?).ok()
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key of its record.
    #[must_use]
    pub fn record_key(&self) -> Vec<u8> {
        [PREFIX, &self.0].concat()
    }
}

impl fmt::Display for BusinessId {
    /// As text; what is not printable is escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.chars().any(char::is_control) => f.write_str(text),
            Ok(_) | Err(_) => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

impl fmt::Debug for BusinessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BusinessId({self})")
    }
}
