//! `onbeat down`

use onbeat_node::run::{self, Removal};

use onbeat_terminal::exit::{Answer, Result};
use onbeat_terminal::output;

/// Take a node away: its programs, its tables, and the interfaces it made
///
/// Whether it runs or not. What it changed on other interfaces is put back. From then on frames of
/// its streams are like all others.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat down bridge
  onbeat down /etc/onbeat/bridge.toml
  onbeat down bridge --forget

Exit status: 0 the node is removed, and nothing of it is left; 1 something is left: a setting of an \
interface that could not be restored and stays in the journal for the next attempt, or a data plane \
whose pins are in a BPF file system that this mount namespace does not have; 2 error.")]
pub(crate) struct Arguments {
    /// Name of the node, or its configuration file, where that sets another pin or control: with a
    /// "/" or the ending .toml it is a file
    #[arg(value_name = "NODE|FILE")]
    node: String,
    /// Discard the settings of interfaces that cannot be restored, and a damaged journal
    #[arg(long)]
    forget: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        let removal = run::down(&self.node, self.forget)?;
        if removal != Removal::DataPlaneLeft {
            output::print(&format!("{} is down\n", self.node))?;
        }
        Ok(Answer::good_if(removal == Removal::Complete))
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn takes_a_node() {
        let Ok(Command::Down(down)) = parse("down bridge") else { panic!() };
        assert_eq!(down.node, "bridge");
        assert!(parse("down").is_err(), "all nodes at once are not taken down by mistake");
    }
}
