//! `onbeat down`

use onbeat_node::run;

use crate::exit::{Answer, Result};
use crate::output;

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

Exit status: 0 the node is removed; 1 it is removed, but a setting of an interface could not be restored \
and stays in the journal for the next attempt; 2 error.")]
pub(crate) struct Arguments {
    /// Name of the node, or its configuration file (which tells where it is pinned, where that is
    /// not the default)
    #[arg(value_name = "NODE|FILE")]
    node: String,
    /// Discard the settings of interfaces that cannot be restored, and a damaged journal
    #[arg(long)]
    forget: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        let restored = run::down(&self.node, self.forget)?;
        output::print(&format!("{} is down\n", self.node))?;
        Ok(Answer::good_if(restored))
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
