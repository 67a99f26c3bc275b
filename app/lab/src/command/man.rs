//! `onbeat-lab man`

use onbeat_terminal::exit::Result;
use onbeat_terminal::manual::{self, Manual};

/// Print the manual pages
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "\
Examples:
  onbeat-lab man out/man

Exit status: 0 success, 2 error."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    manual: Manual,
}

impl Arguments {
    pub(crate) fn execute(self, program: clap::Command) -> Result {
        self.manual.execute(&manual::pages(program, &[]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use onbeat_terminal::program::command_line;

    #[test]
    fn each_command_has_a_page_unless_it_is_hidden() {
        let pages = manual::pages(command_line::<Command>(), &[]);
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(names, ["onbeat-lab", "onbeat-bench", "onbeat-load"]);
        for (page, command) in [(0, "lab run link-failure"), (0, "lab shell"), (1, "bench port")] {
            let text = &pages[page].text;
            assert!(text.contains(&format!(".SS \"onbeat {command}\"\n")), "{command}\n{text}");
        }
    }
}
