//! Completions of a command line for shells.

use clap_complete::Shell;

use crate::exit::{Answer, Result};
use crate::output;

/// The shell to print completions for.
#[derive(Debug, clap::Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

impl Completions {
    /// Prints completions of the program `name`.
    ///
    /// # Errors
    /// Standard output.
    pub fn execute(self, name: &str, mut program: clap::Command) -> Result {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut text);
        output::print(&String::from_utf8_lossy(&text))?;
        Ok(Answer::Good)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    #[test]
    fn completions_take_a_shell() {
        let parse = |line: [&str; 2]| {
            let command = Completions::augment_args(Command::new("completions"));
            Completions::from_arg_matches(&command.try_get_matches_from(line)?)
        };
        assert_eq!(parse(["completions", "zsh"]).unwrap().shell.to_string(), "zsh");
        assert!(parse(["completions", "sh"]).is_err());
    }
}
