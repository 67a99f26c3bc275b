//! Completions for a shell.

use clap_complete::Shell;

use crate::exit::{Answer, Result};
use crate::output;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The shell
    shell: Shell,
}

impl Arguments {
    /// Prints those of a program.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn execute(self, mut program: clap::Command, name: &str) -> Result {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut text);
        output::print(&String::from_utf8_lossy(&text))?;
        Ok(Answer::Good)
    }
}
