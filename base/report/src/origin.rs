//! The origin of a result: the command, its version and its inputs.

mod inputs;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::conditions::Conditions;

pub use inputs::{Input, InputKind, Inputs};

/// The data required to repeat a result: command line, version and inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Words of the command line, the name of the program first. Octets that are not UTF-8 are U+FFFD.
    pub command: Vec<String>,
    /// Version of the program.
    pub version: String,
    /// Commit of the program's sources, with `-dirty` if they differ from it; `None`: unknown.
    pub commit: Option<String>,
    /// Start of the command, RFC 3339 in UTC.
    pub started: String,
    /// Seed of random choices; `None`: there are none.
    pub seed: Option<u64>,
    /// Files and interfaces that the command read.
    pub inputs: Vec<Input>,
    /// The machine that analyzed the inputs; `None` for a measurement: its machine is described by the
    /// conditions of the result.
    pub analyzed_on: Option<Machine>,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel release.
    pub kernel: Option<String>,
    /// Model of the first CPU.
    pub cpu_model: Option<String>,
    /// CPUs online.
    pub cpus: Option<u32>,
}

/// The commit that the program was built from.
static COMMIT: OnceLock<&str> = OnceLock::new();

/// Sets the commit that the program was built from, for the origin of its results. A program does so once,
/// when it starts; later calls have no effect.
pub fn set_commit(commit: &'static str) {
    let _ = COMMIT.set(commit);
}

impl Origin {
    /// Returns the origin of a result of this process, without inputs.
    pub(crate) fn of_process(started: String) -> Self {
        Self {
            command: command(std::env::args_os().map(|word| word.to_string_lossy().into_owned())),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: COMMIT.get().map(|commit| (*commit).to_owned()),
            started,
            seed: None,
            inputs: Vec::new(),
            analyzed_on: None,
        }
    }

    /// Returns the command line, quoted for a POSIX shell.
    pub fn command_line(&self) -> String {
        let words = self.command.iter().map(|word| {
            // A NUL cannot be quoted; words of a command line have none, but words of a file may.
            shlex::try_quote(word).unwrap_or_else(|_| "?".into())
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// Returns version and commit: `0.1.0 (1a2b3c4d)`.
    pub fn version_line(&self) -> String {
        match &self.commit {
            Some(commit) => format!("{} ({commit})", self.version),
            None => self.version.clone(),
        }
    }

    /// Returns label and text of each known part, except inputs.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let machine = self.analyzed_on.as_ref().map(Machine::summary);
        let lines = [
            ("version", Some(self.version_line())),
            ("started", Some(self.started.clone())),
            ("seed", self.seed.map(|seed| seed.to_string())),
            ("analyzed on", machine.filter(|text| !text.is_empty())),
        ];
        lines.into_iter().filter_map(|(label, text)| Some((label, text?))).collect()
    }
}

/// Returns the words of a command line, with the name of the program instead of its path. `onbeat lab`
/// executes the laboratory, onbeat-lab, which has the same commands as `onbeat`.
fn command(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = words.collect();
    if let Some(program) = words.first_mut() {
        let name = program.rsplit('/').next().unwrap_or_default();
        *program = if name == "onbeat-lab" { "onbeat".into() } else { name.to_owned() };
    }
    words
}

impl From<&Conditions> for Machine {
    fn from(conditions: &Conditions) -> Self {
        let Conditions { kernel, cpu_model, cpus, .. } = conditions.clone();
        Self { kernel, cpu_model, cpus }
    }
}

impl Machine {
    fn summary(&self) -> String {
        let kernel = self.kernel.as_ref().map(|kernel| format!("Linux {kernel}"));
        let cpus = self.cpus.map(|cpus| crate::format::count(u64::from(cpus), "CPU"));
        let parts = [kernel, cpus, self.cpu_model.clone()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_program_is_shown_by_name() {
        let of = |program: &str| command(words(&[program, "lab", "run", "/a/b"]).into_iter());
        for program in ["/usr/libexec/onbeat/onbeat-lab", "onbeat-lab", "./onbeat"] {
            assert_eq!(of(program), ["onbeat", "lab", "run", "/a/b"], "{program}");
        }
        assert!(command(std::iter::empty()).is_empty());
    }

    #[test]
    fn a_shell_parses_the_quoted_words() {
        let hostile = [
            "plain",
            "",
            " ",
            "a b",
            "it's",
            "\"",
            "\\",
            "$HOME",
            "`id`",
            "$(id)",
            "!x",
            "*",
            "~",
            "#",
            "a\nb",
            "\t",
            "-",
            "--",
            "=",
            ";",
            "&",
            "|",
            "<",
            ">",
            "(",
            "{a,b}",
            "[a]",
            "é€𝄞",
            "'\\''",
            "\u{1b}[31m",
            "a\\\nb",
            "%s",
            "\\n",
            "^",
        ];
        let mut origin = Origin::of_process(String::new());
        origin.command = words(&[&["printf", "%s\\0"], &hostile[..]].concat());
        let shell = Command::new("sh").args(["-c", &origin.command_line()]).output().unwrap();
        assert!(shell.status.success(), "{shell:?}");
        let printed = String::from_utf8(shell.stdout).unwrap();
        let printed: Vec<&str> = printed.split_terminator('\0').collect();
        assert_eq!(printed, hostile);
    }

    #[test]
    fn unknown_parts_have_no_line() {
        let mut origin = Origin::of_process("2025-01-31T12:00:00Z".into());
        assert_eq!(origin.lines().len(), 2, "{:?}", origin.lines());
        origin.seed = Some(7);
        let machine = Machine { kernel: Some("6.1".into()), cpu_model: None, cpus: Some(1) };
        origin.analyzed_on = Some(machine);
        let lines = origin.lines();
        assert!(lines.contains(&("seed", "7".into())), "{lines:?}");
        assert!(lines.contains(&("analyzed on", "Linux 6.1, 1 CPU".into())), "{lines:?}");
    }
}
