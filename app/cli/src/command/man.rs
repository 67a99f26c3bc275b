//! `onbeat man`

use onbeat_host::run_directory;
use onbeat_terminal::exit::Result;
use onbeat_terminal::manual::{self, Manual, Page};

use crate::command::laboratory;

/// Print the manual pages
#[derive(Debug, clap::Args)]
#[command(
    hide = true,
    after_help = "\
Examples:
  onbeat man out/man

Exit status: 0 success, 2 error."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    manual: Manual,
}

impl Arguments {
    pub(crate) fn execute(self, program: clap::Command) -> Result {
        self.manual.execute(&pages(&program))
    }
}

fn pages(program: &clap::Command) -> Vec<Page> {
    let mut pages = vec![overview(program.clone())];
    pages.extend(manual::pages(program.clone(), &laboratory::COMMANDS));
    pages
}

fn overview(program: clap::Command) -> Page {
    let environment = [(
        "NOTIFY_SOCKET, WATCHDOG_USEC, JOURNAL_STREAM",
        "Set by systemd: run notifies systemd of readiness and liveness, and logs in the format of the journal.",
    )];
    let files = [
        ("/etc/onbeat/NAME.toml", "Configuration of the service onbeat@NAME."),
        (run_directory!("NAME.sock"), "Control socket of a running node."),
        (run_directory!("NAME.sock.node-journal"), "Interface settings that down restores."),
        (
            run_directory!("interfaces"),
            "Locks on interfaces: an interface has one owner at a time.",
        ),
        (
            run_directory!("cpus"),
            "Locks on CPUs: one experiment with real-time tasks uses a CPU at a time.",
        ),
        (
            "/sys/fs/bpf/onbeat/NAME",
            "BPF programs and maps of a node. They persist without the daemon.",
        ),
    ];
    manual::overview(program, &environment, &files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use onbeat_terminal::program::command_line;

    #[test]
    fn each_visible_command_outside_the_laboratory_has_a_page() {
        let pages = pages(&command_line::<Command>());
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "onbeat",
                "onbeat-doctor",
                "onbeat-protect",
                "onbeat-run",
                "onbeat-show",
                "onbeat-top",
                "onbeat-metrics",
                "onbeat-reset",
                "onbeat-stream",
                "onbeat-reload",
                "onbeat-down",
                "onbeat-plan",
                "onbeat-yang",
                "onbeat-irq",
                "onbeat-delay",
                "onbeat-powerlink",
                "onbeat-completions"
            ]
        );
        for named in ["onbeat\\-run", "onbeat\\-lab"] {
            assert!(pages[0].text.contains(named), "{named}: {}", pages[0].text);
        }
        assert!(!pages[0].text.contains("onbeat\\-man"));
        let delay = pages.iter().find(|page| page.name == "onbeat-delay").unwrap();
        for heading in ["SS \"onbeat delay calibrate ping\"", "SH EXAMPLES", "SH \"EXIT STATUS\""] {
            assert!(delay.text.contains(&format!("\n.{heading}\n")), "{heading}: {}", delay.text);
        }
    }
}
