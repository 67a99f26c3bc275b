//! `onbeat show`

mod events;

use onbeat_node::control::{EventStart, node_table, stream_detail};

use onbeat_terminal::exit::{Answer, Result};
use onbeat_terminal::output;

use crate::node;

/// Show a running node: its ports, its streams, and what they counted; or what happened to them
///
/// Events are paths that were lost and came back, latent errors, floods of rogue packets, resets,
/// ports that went away and came back, and changes of single streams. Each has a number, which runs
/// from 1 with each start of the daemon; who asks again with --since and the last number misses none,
/// and is told if some are no longer kept. When what is told stands under [node.events] of the node's
/// file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat show
  onbeat show bridge --stream axis-1
  onbeat show bridge --json | jq '.streams[].recovery.lost'
  onbeat show --events --follow --json

Exit status: 0 success, 2 error (no node answers, or the stream does not exist).")]
pub(crate) struct Arguments {
    /// Name of the node, or path of its control socket; without it, the only node that runs
    node: Option<String>,
    /// Show everything about one stream, or only its events
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
    /// Show what happened, a line for each event
    #[arg(long)]
    events: bool,
    /// Only events after the one of this number, or from this time on (RFC 3339, UTC, or its beginning,
    /// such as 2025-01-31T12:30)
    #[arg(long, value_name = "NUMBER|TIME", requires = "events")]
    since: Option<EventStart>,
    /// Go on with events as they happen
    #[arg(long, requires = "events")]
    follow: bool,
    /// Print the state as JSON, with every counter; of events, an object in a line for each
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        let Self { node, stream, since, follow, json, .. } = self;
        if self.events {
            let mut client = node::connect(node.as_deref(), "onbeat show --events")?;
            return events::show(
                &mut client,
                &events::EventOptions { since, stream, follow, json },
            );
        }
        let status = node::connect(node.as_deref(), "onbeat show")?.status()?;
        match (&stream, json) {
            (None, false) => output::print(&node_table(&status))?,
            (None, true) => output::print_json(&status)?,
            (Some(name), false) => output::print(&stream_detail(status.stream(name)?))?,
            (Some(name), true) => output::print_json(status.stream(name)?)?,
        }
        Ok(Answer::Good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn takes_a_node_and_a_stream() {
        let Ok(Command::Show(show)) = parse("show a --stream axis-1 --json") else { panic!() };
        assert_eq!(show.node.as_deref(), Some("a"));
        assert_eq!(show.stream.as_deref(), Some("axis-1"));
        assert!(show.json);
        let Ok(Command::Show(show)) = parse("show") else { panic!() };
        assert!(show.node.is_none() && show.stream.is_none() && !show.json && !show.events);
    }

    #[test]
    fn takes_events_from_a_number_or_a_time_on() {
        let Ok(Command::Show(show)) = parse("show a --events --since 7 --follow") else { panic!() };
        assert!(show.events && show.follow && show.since == Some(EventStart::Number(7)));
        assert!(parse("show a --follow").is_err() && parse("show --since 7").is_err());
    }
}
