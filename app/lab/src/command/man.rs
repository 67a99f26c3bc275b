//! `onbeat-lab man`

use onbeat_host::run_directory;
use onbeat_terminal::manual;

pub(super) fn page(program: clap::Command) -> String {
    let files = [(
        run_directory!("cpus"),
        "Locks on CPUs: one experiment with real-time tasks at a time uses one.",
    )];
    manual::page("onbeat-lab", program, &[], &files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use onbeat_terminal::program::of_commands;

    #[test]
    fn each_command_is_there_unless_it_is_hidden() {
        let page = page(of_commands::<Command>());
        for command in ["lab run link-failure", "lab shell", "bench frer", "bench port", "load cpu"]
        {
            assert!(page.contains(&format!(".SS \"onbeat {command}\"\n")), "{command}\n{page}");
        }
        assert!(!page.contains(".SS \"onbeat man\""));
    }
}
