//! `onbeat reload`

use onbeat_node::control::Request;

use crate::node;
use onbeat_terminal::exit::Result;

/// Let a running node read its configuration file anew
///
/// Streams that are the same in the new file go on without losing a frame. Where the new file has
/// faults they are printed, and the node goes on as before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat reload
  onbeat reload bridge

Exit status: 0 the new file is in force, 2 error (the old file stays in force).")]
pub(crate) struct Arguments {
    /// Name of the node, or path of its control socket; without it, the only node that runs
    node: Option<String>,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        node::order(self.node.as_deref(), "onbeat reload", &Request::Reload)
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn takes_a_node() {
        let Ok(Command::Reload(reload)) = parse("reload a") else { panic!() };
        assert_eq!(reload.node.as_deref(), Some("a"));
    }
}
