//! The files of the repository, read once.

use std::str::FromStr;

use anyhow::Result;
use proc_macro2::TokenStream;

use crate::call::Call;

/// All text files that are in the repository or about to be: tracked, or new and not ignored.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
    /// Every path, those of binary files included.
    pub(super) paths: Vec<String>,
}

/// One text file.
pub(super) struct File {
    /// From the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// A Rust file's tokens, or why it has none.
    pub(super) rust: Option<Result<TokenStream, String>>,
}

impl Tree {
    /// Reads the tree in the current folder.
    pub(super) fn read() -> Result<Self> {
        let listing =
            Call::new("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output()?;
        let mut tree = Self { files: Vec::new(), paths: Vec::new() };
        for path in listing.split_terminator('\0') {
            // What is deleted but still tracked, or a folder of its own repository, is not there to be read.
            let Ok(bytes) = std::fs::read(path) else { continue };
            tree.paths.push(path.to_owned());
            if let Ok(text) = String::from_utf8(bytes) {
                tree.files.push(File::new(path, text));
            }
        }
        Ok(tree)
    }

    /// A tree of these files, for tests of rules.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let paths = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        let files = files.iter().map(|(path, text)| File::new(path, (*text).to_owned())).collect();
        Self { files, paths }
    }

    /// The file at exactly this path.
    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The files whose name ends in `.` and `extension`.
    pub(super) fn with_extension<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.extension() == Some(extension))
    }

    /// The Rust files that could be read as such, with their tokens.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &TokenStream)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?.as_ref().ok()?)))
    }
}

impl File {
    fn new(path: &str, text: String) -> Self {
        let rust =
            path.ends_with(".rs").then(|| TokenStream::from_str(&text).map_err(|error| error.to_string()));
        Self { path: path.to_owned(), text, rust }
    }

    /// What follows the last dot of the name.
    pub(super) fn extension(&self) -> Option<&str> {
        self.name().rsplit_once('.').map(|(_, extension)| extension)
    }

    /// The last part of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}
