//! `onbeat down`

use onbeat_node::protect::refuse_own_session;
use onbeat_node::run::{self, Removal};

use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::output;

/// Remove a node: its programs, tables and the interfaces it created
///
/// Stops the daemon if it runs. Restores the settings of other interfaces. Frames of the node's streams are then
/// handled like all others.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat down bridge
  onbeat down /etc/onbeat/bridge.toml
  onbeat down bridge --forget

Exit status: 0 the node is removed completely; 1 incomplete; 2 error. It is incomplete if a setting of an interface could not be \
restored, which stays in the journal for the next attempt; or if the pins of the data plane are in a BPF file \
system that is not mounted in this mount namespace.")]
pub(crate) struct Arguments {
    /// Name of the node, or its configuration file: an argument with "/" or the extension .toml. The file is
    /// required if it sets pin or control
    #[arg(value_name = "NODE|FILE")]
    node: String,
    /// Discard interface settings that cannot be restored, and a damaged journal
    #[arg(long)]
    forget: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        refuse_own_session(&run::name_of(&self.node)?)?;
        let removal = run::down(&self.node, self.forget)?;
        if removal != Removal::DataPlaneLeft {
            output::print(&format!("{} is down\n", self.node))?;
        }
        Ok(CommandResult::good_if(removal == Removal::Complete))
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn requires_a_node() {
        let Ok(Command::Down(down)) = parse("down bridge") else { panic!() };
        assert_eq!(down.node, "bridge");
        assert!(parse("down").is_err(), "no node is removed by default");
    }
}
