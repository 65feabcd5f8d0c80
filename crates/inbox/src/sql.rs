//! The statements in the files of the folder `sql`.

/// The statement behind the line `-- name: NAME`, up to its semicolon.
///
/// # Panics
/// If there is none, which is found when the crate is built.
pub(crate) const fn statement(file: &'static str, name: &str) -> &'static str {
    const MARK: &[u8] = b"\n-- name: ";
    let (bytes, name) = (file.as_bytes(), name.as_bytes());
    let mut at = 0;
    while at < bytes.len() {
        if starts_with(bytes, at, MARK) && starts_with(bytes, at + MARK.len(), name) {
            let begin = at + MARK.len() + name.len();
            if bytes[begin] == b'\n' {
                let mut end = begin;
                while bytes[end] != b';' {
                    end += 1;
                }
                return file.split_at(end).0.split_at(begin + 1).1;
            }
        }
        at += 1;
    }
    panic!("there is no statement of this name");
}

const fn starts_with(bytes: &[u8], at: usize, part: &[u8]) -> bool {
    if at + part.len() > bytes.len() {
        return false;
    }
    let mut nth = 0;
    while nth < part.len() {
        if bytes[at + nth] != part[nth] {
            return false;
        }
        nth += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::statement;

    #[test]
    fn statement_is_found_by_its_whole_name() {
        const FILE: &str = "-- About\n\n-- name: read_all\nSELECT 1;\n\n-- name: read\nSELECT\n 2;\n";
        assert_eq!(statement(FILE, "read"), "SELECT\n 2");
        assert_eq!(statement(FILE, "read_all"), "SELECT 1");
    }
}
