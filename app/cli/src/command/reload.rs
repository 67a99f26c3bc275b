//! `onbeat reload`

use onbeat_node::control::Request;

use crate::node;
use onbeat_terminal::exit::Result;

/// Reload the configuration file of a running node
///
/// Streams that do not change lose no frame. If the new file has errors, they are printed and the node
/// keeps its configuration.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat reload
  onbeat reload bridge

Exit status: 0 success, 2 error (the previous configuration stays active).")]
pub(crate) struct Arguments {
    /// Name of the node, or path of its control socket [default: the only running node]
    node: Option<String>,
    /// Change a node that another system manages (managed-by in its file)
    #[arg(long)]
    force: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        node::order(self.node.as_deref(), "onbeat reload", &Request::Reload { force: self.force })
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn accepts_a_node() {
        let Ok(Command::Reload(reload)) = parse("reload a") else { panic!() };
        assert_eq!(reload.node.as_deref(), Some("a"));
    }
}
