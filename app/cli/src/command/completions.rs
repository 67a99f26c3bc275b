//! `onbeat completions`

use clap_complete::Shell;

use onbeat_terminal::exit::{Answer, Result};
use onbeat_terminal::output;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat completions bash > /etc/bash_completion.d/onbeat

Exit status: 0 success, 2 error (the shell is not supported).")]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

impl Arguments {
    pub(crate) fn execute(self, mut program: clap::Command) -> Result {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut program, "onbeat", &mut text);
        output::print(&String::from_utf8_lossy(&text))?;
        Ok(Answer::Good)
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn takes_a_shell() {
        let Ok(Command::Completions(completions)) = parse("completions zsh") else { panic!() };
        assert_eq!(completions.shell, clap_complete::Shell::Zsh);
        assert!(parse("completions sh").is_err());
    }
}
