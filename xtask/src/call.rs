//! A call of another program that can be run, and shown as the line which repeats it.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// One program with its arguments and what it adds to the environment; runs in the current folder.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Call {
    /// A call of `program`, found on the `PATH`, with `arguments` as they are: no shell is involved.
    pub(crate) fn new(program: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Self { program: program.to_owned(), arguments, environment: Vec::new() }
    }

    /// A call of cargo, its arguments written as one line; none of them may contain white space.
    pub(crate) fn cargo(line: &str) -> Self {
        Self::new("cargo", &line.split_whitespace().collect::<Vec<_>>())
    }

    /// Appends arguments.
    pub(crate) fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// Sets one variable for the called program.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The call as a line for a shell.
    pub(crate) fn line(&self) -> String {
        let variables = self.environment.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = std::iter::once(&self.program).chain(&self.arguments).map(|word| quoted(word));
        variables.chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Runs it on the caller's standard streams. An exit code other than 0 is an error.
    pub(crate) fn run(&self) -> Result<()> {
        eprintln!("$ {}", self.line());
        let status = self.command().status().with_context(|| format!("cannot start {}", self.program))?;
        if !status.success() {
            bail!("`{}` ended with {status}", self.line());
        }
        Ok(())
    }

    /// Runs it and gives what it wrote on standard output, which must be UTF-8. An exit code other than 0 is an error;
    /// what was written until then is shown.
    pub(crate) fn output(&self) -> Result<String> {
        let output = self
            .command()
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot start {}", self.program))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            eprint!("{text}");
            bail!("`{}` ended with {}", self.line(), output.status);
        }
        String::from_utf8(output.stdout).with_context(|| format!("`{}` did not write UTF-8", self.line()))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The word as a shell must be given it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_can_be_pasted_into_a_shell() {
        let call = Call::cargo("nextest run")
            .with(&["-E", "test(a | b)", "it's"])
            .env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(call.line(), r"RUSTDOCFLAGS='-D warnings' cargo nextest run -E 'test(a | b)' 'it'\''s'");
    }

    #[test]
    fn failing_call_is_an_error_that_shows_the_line() {
        let error = Call::new("sh", &["-c", "exit 3"]).run().unwrap_err().to_string();
        assert!(error.contains("sh -c 'exit 3'") && error.contains('3'), "{error}");
        assert!(Call::new("sh", &["-c", "echo half; exit 3"]).output().is_err());
    }

    #[test]
    fn program_that_does_not_exist_is_an_error_not_a_panic() {
        let error = Call::new("amends-no-such-program", &[]).run().unwrap_err().to_string();
        assert!(error.contains("amends-no-such-program"), "{error}");
    }

    #[test]
    fn called_program_sees_the_environment_and_its_output_is_given() {
        let call = Call::new("sh", &["-c", "echo $PLANTED"]).env("PLANTED", "seen");
        assert_eq!(call.output().unwrap(), "seen\n");
    }
}
