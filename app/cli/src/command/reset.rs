//! `onbeat reset`

use onbeat_node::control::Request;

use crate::node;
use onbeat_terminal::exit::Result;

/// Reset the sequence functions of a stream
///
/// Sequence generation restarts at 0 (802.1CB 7.4.1.3), and recovery functions accept the next packet
/// with any sequence number (7.4.3.3). Counters are not reset.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat reset axis-1
  onbeat reset axis-1 --node bridge

Exit status: 0 success, 2 error (no daemon answers, or the stream does not exist).")]
pub(crate) struct Arguments {
    /// Name of the stream
    stream: String,
    /// Name of the node, or path of its control socket [default: the only running node]
    #[arg(long)]
    node: Option<String>,
    /// Change a node that another system manages (managed-by in its file)
    #[arg(long)]
    force: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        let command = format!("onbeat reset {} --node", self.stream);
        let Self { stream, node, force } = self;
        node::order(node.as_deref(), &command, &Request::Reset { stream, force })
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn requires_a_stream_and_accepts_a_node() {
        let Ok(Command::Reset(reset)) = parse("reset axis-1 --node a") else { panic!() };
        assert_eq!((reset.stream.as_str(), reset.node.as_deref()), ("axis-1", Some("a")));
        assert!(parse("reset").is_err(), "no stream is reset by default");
    }
}
