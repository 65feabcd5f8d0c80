//! How vectors are kept in a field: numbers of four bytes, the highest first, and the words themselves.

use super::COMMANDS_MAX;

/// Reads lists of words; `None` if the bytes are of another making.
pub(crate) fn unpack(bytes: &[u8]) -> Option<Vec<Vec<Vec<u8>>>> {
    let mut rest = bytes;
    let count = number(&mut rest)?;
    if count > COMMANDS_MAX {
        return None;
    }
    let lists = (0..count).map(|_| list(&mut rest)).collect::<Option<Vec<_>>>()?;
    rest.is_empty().then_some(lists)
}

/// Reads the words of what is one list only, such as the answers of commands.
pub(crate) fn unpack_words(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut lists = unpack(bytes)?;
    (lists.len() == 1).then(|| lists.remove(0))
}

fn list(rest: &mut &[u8]) -> Option<Vec<Vec<u8>>> {
    let words = number(rest)?;
    (0..words)
        .map(|_| {
            let length = number(rest)?;
            let (word, behind) = rest.split_at_checked(length)?;
            *rest = behind;
            Some(word.to_vec())
        })
        .collect()
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let (bytes, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    usize::try_from(u32::from_be_bytes(*bytes)).ok()
}

#[cfg(test)]
pub(crate) fn pack(lists: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let number = |n: usize| u32::try_from(n).unwrap().to_be_bytes();
    let mut bytes = number(lists.len()).to_vec();
    for list in lists {
        bytes.extend(number(list.len()));
        for word in list {
            bytes.extend(number(word.len()));
            bytes.extend(word);
        }
    }
    bytes
}
