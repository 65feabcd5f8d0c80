//! Rules on how much there is.

use super::Finding;
use super::tree::Tree;

/// A file past this has a second idea, and must be split.
const LINES_MAX: usize = 800;
/// From here on it is time to ask what the second idea is.
const LINES_NOTED: usize = 600;
/// What people write and read; generated files and data may be as long as they are.
const READ_BY_PEOPLE: &[&str] = &["rs", "md", "toml", "py", "sql", "lua", "js", "css", "html", "sh"];
/// A ceiling for what we build on: raising it is a decision, not an accident.
const PACKAGES_MAX: usize = 400;

/// No file is too long to be held in mind.
pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for extension in READ_BY_PEOPLE {
        for file in tree.with_extension(extension) {
            let lines = file.text.lines().count();
            if lines > LINES_MAX {
                let message = format!("{lines} lines, more than {LINES_MAX}: split it by its ideas");
                findings.push(Finding::new(&file.path, 0, message));
            } else if lines > LINES_NOTED {
                findings.push(Finding::note(
                    &file.path,
                    0,
                    format!("{lines} lines: does it hold a second idea?"),
                ));
            }
        }
    }
    findings
}

/// Cargo.lock is there, and names no more packages than the ceiling.
pub(super) fn lock(tree: &Tree) -> Vec<Finding> {
    const LOCK: &str = "Cargo.lock";
    let Some(lock) = tree.file(LOCK) else {
        return vec![Finding::new(
            LOCK,
            0,
            "must be in the repository: a binary is built from known versions",
        )];
    };
    let packages = lock.text.lines().filter(|line| *line == "[[package]]").count();
    if packages <= PACKAGES_MAX {
        return Vec::new();
    }
    vec![Finding::new(
        LOCK,
        0,
        format!("{packages} packages, more than {PACKAGES_MAX}: look for what brought them in"),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_length(path: &str, lines: usize) -> Vec<Finding> {
        files(&Tree::of(&[(path, &"// line\n".repeat(lines))]))
    }

    #[test]
    fn long_file_is_found_and_a_longish_one_noted() {
        assert!(of_length("a.rs", LINES_NOTED).is_empty());
        assert!(of_length("a.rs", LINES_NOTED + 1)[0].is_note);
        assert!(of_length("a.rs", LINES_MAX)[0].is_note);
        assert!(!of_length("a.rs", LINES_MAX + 1)[0].is_note);
    }

    #[test]
    fn data_may_be_long() {
        assert!(of_length("Cargo.lock", LINES_MAX + 1).is_empty());
        assert!(of_length("fixture.jsonl", LINES_MAX + 1).is_empty());
    }

    #[test]
    fn too_many_packages_are_found() {
        let with = |packages: usize| {
            lock(&Tree::of(&[("Cargo.lock", &"[[package]]\nname = \"a\"\n".repeat(packages))]))
        };
        assert!(with(PACKAGES_MAX).is_empty());
        assert_eq!(with(PACKAGES_MAX + 1).len(), 1);
    }

    #[test]
    fn missing_lock_file_is_found() {
        assert_eq!(lock(&Tree::of(&[])).len(), 1);
    }
}
