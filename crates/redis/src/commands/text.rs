//! Commands as text, split into words as `redis-cli` splits a line.

use super::command::Malformed;

/// Splits a text into words.
pub(super) fn split(text: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(words);
        }
        words.push(word(&mut rest)?);
    }
}

/// Takes one word off the front. Quotes may begin within a word; a closing one ends it.
fn word(rest: &mut &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut word = Vec::new();
    while let Some((byte, behind)) = rest.split_first() {
        *rest = behind;
        match byte {
            b'"' => return double_quoted(rest, word),
            b'\'' => return single_quoted(rest, word),
            byte if byte.is_ascii_whitespace() => break,
            byte => word.push(*byte),
        }
    }
    Ok(word)
}

fn double_quoted(rest: &mut &[u8], mut word: Vec<u8>) -> Result<Vec<u8>, Malformed> {
    while let Some((byte, behind)) = rest.split_first() {
        *rest = behind;
        match (byte, &behind) {
            (b'"', _) => return closed(rest, word),
            (b'\\', [b'x', high, low, behind @ ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                word.push(hex(*high).unwrap_or(0) << 4 | hex(*low).unwrap_or(0));
                *rest = behind;
            }
            (b'\\', [escaped, behind @ ..]) => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                *rest = behind;
            }
            (byte, _) => word.push(*byte),
        }
    }
    Err(Malformed::of_all(
        "a double quote is not closed: add the other, or write it as \\\" between double quotes",
    ))
}

fn single_quoted(rest: &mut &[u8], mut word: Vec<u8>) -> Result<Vec<u8>, Malformed> {
    while let Some((byte, behind)) = rest.split_first() {
        *rest = behind;
        match (byte, &behind) {
            (b'\'', _) => return closed(rest, word),
            (b'\\', [b'\'', behind @ ..]) => {
                word.push(b'\'');
                *rest = behind;
            }
            (byte, _) => word.push(*byte),
        }
    }
    Err(Malformed::of_all("a single quote is not closed: add the other, or write it between double quotes"))
}

/// Behind a closing quote only a space may come.
fn closed(rest: &[u8], word: Vec<u8>) -> Result<Vec<u8>, Malformed> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => {
            Err(Malformed::of_all("something follows a closing quote: put a space between them"))
        }
        Some(_) | None => Ok(word),
    }
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Writes words so that [`split`] reads them again.
pub(super) fn join(words: &[Vec<u8>]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !word.is_empty() && word.iter().all(plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    let mut text = String::from("\"");
    for byte in word {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            byte => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_redis_cli_splits_them() {
        let table: [(&[u8], &[&[u8]]); 7] = [
            (b"HINCRBY balance:1001 amount -100", &[b"HINCRBY", b"balance:1001", b"amount", b"-100"]),
            (b"  SET  k\t\"a b\"  ", &[b"SET", b"k", b"a b"]),
            (br#"SET k "\x00\xfF\n\"\\\q""#, &[b"SET", b"k", b"\x00\xff\n\"\\q"]),
            (br"SET k 'a \'b\' \n'", &[b"SET", b"k", br"a 'b' \n"]),
            (b"SET k \"\"", &[b"SET", b"k", b""]),
            (b"SET k pre\"a b\"", &[b"SET", b"k", b"prea b"]),
            (b"", &[]),
        ];
        for (text, words) in table {
            assert_eq!(split(text).unwrap(), words, "{}", text.escape_ascii());
        }
        for (text, said) in
            [(&b"SET k \"a"[..], "double quote"), (b"SET 'k", "single quote"), (b"\"a\"b", "follows")]
        {
            assert!(split(text).unwrap_err().to_string().contains(said));
        }
    }

    #[test]
    fn what_is_joined_is_split_into_the_same() {
        let words: Vec<Vec<u8>> =
            (0..=255u8).map(|byte| vec![b'a', byte]).chain([vec![], b"'\"".to_vec()]).collect();
        assert_eq!(split(join(&words).as_bytes()).unwrap(), words);
    }
}
