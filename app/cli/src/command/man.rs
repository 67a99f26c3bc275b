//! `onbeat man`

use onbeat_host::run_directory;
use onbeat_terminal::manual;

pub(super) fn page(program: clap::Command) -> String {
    let environment = [(
        "NOTIFY_SOCKET, WATCHDOG_USEC, JOURNAL_STREAM",
        "Set by systemd: run tells it when it is ready and that it lives, and logs as the journal has it.",
    )];
    let files = [
        ("/etc/onbeat/NAME.toml", "The configuration that the service onbeat@NAME runs."),
        (run_directory!("NAME.sock"), "The control socket of a running node."),
        (run_directory!("NAME.sock.node-journal"), "Settings of interfaces that down restores."),
        (
            run_directory!("interfaces"),
            "Locks on interfaces: one program at a time opens one for itself.",
        ),
        (
            "/sys/fs/bpf/onbeat/NAME",
            "The programs and tables of a node. They outlive the program that made them.",
        ),
    ];
    manual::page("onbeat", program, &environment, &files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use onbeat_terminal::program::of_commands;

    #[test]
    fn each_command_is_there_unless_it_is_hidden() {
        let page = page(of_commands::<Command>());
        for command in ["doctor", "run", "show", "reset", "reload", "down", "lab", "bench"] {
            assert!(page.contains(&format!(".SS \"onbeat {command}\"\n")), "{command}\n{page}");
        }
        assert!(!page.contains(".SS \"onbeat man\"") && !page.contains(".SS \"onbeat help"));
    }
}
