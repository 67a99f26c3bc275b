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
