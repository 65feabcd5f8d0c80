//! Cursors: opaque texts that say where a page of a list goes on.
//!
//! A cursor is only ever a position, never a permission; a short checksum tells a cursor of this list from garbage, and
//! from a cursor of another list, so that a mistake is refused rather than answered with the wrong page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::problem::Problem;

/// Bytes of the checksum: enough that a slip of the hand is always noticed.
const CHECK_BYTES: usize = 6;

/// Which list a cursor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Sagas,
    Journal,
    Definitions,
}

impl List {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Sagas => b"sagas",
            Self::Journal => b"journal",
            Self::Definitions => b"definitions",
        }
    }
}

/// Makes a cursor of a position.
pub(crate) fn write(list: List, position: &[u8]) -> String {
    let mut bytes = check(list, position).to_vec();
    bytes.extend_from_slice(position);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Makes a cursor of a number.
pub(crate) fn write_number(list: List, position: u64) -> String {
    write(list, &position.to_be_bytes())
}

/// Reads a cursor.
///
/// # Errors
/// `malformed`, if it is none of this list's.
pub(crate) fn read(list: List, cursor: &str) -> Result<Vec<u8>, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused())?;
    let (checksum, position) = bytes.split_at_checked(CHECK_BYTES).ok_or_else(refused)?;
    if checksum != check(list, position) {
        return Err(refused());
    }
    Ok(position.to_vec())
}

/// Reads a cursor of a number.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_number(list: List, cursor: &str) -> Result<u64, Problem> {
    let position = read(list, cursor)?;
    position.try_into().map(u64::from_be_bytes).map_err(|_| refused())
}

fn check(list: List, position: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = Sha256::new().chain_update(list.name()).chain_update([0]).chain_update(position).finalize();
    std::array::from_fn(|i| digest[i])
}

pub(crate) fn refused() -> Problem {
    Problem::malformed("`cursor` is none that this list gave out; begin again without it").at("cursor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back_as_they_went() {
        for position in [0, 1, 500, u64::MAX] {
            assert_eq!(read_number(List::Sagas, &write_number(List::Sagas, position)).unwrap(), position);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let good = write_number(List::Sagas, 7);
        let mut flipped = good.clone().into_bytes();
        flipped[9] = if flipped[9] == b'A' { b'B' } else { b'A' };
        let flipped = String::from_utf8(flipped).unwrap();
        let short = write(List::Sagas, b"123");
        for bad in
            ["", "x", "%", "7", "AAAAAAAAAAAAAAAAAAA", &good[1..], &flipped, &short, &format!("{good}=")]
        {
            assert!(read_number(List::Sagas, bad).is_err(), "{bad}");
        }
        assert!(read_number(List::Journal, &good).is_err());
    }
}
