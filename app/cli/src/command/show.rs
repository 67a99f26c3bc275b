//! `onbeat show`

mod events;

use onbeat_node::control::{
    NodeStatus, Request, Response, Since, StreamStatus, node_table, stream_detail,
};

use onbeat_terminal::exit::{Answer, Failure, Result};
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
    #[arg(long, value_name = "NUMBER|TIME", requires = "events", value_parser = events::since)]
    since: Option<Since>,
    /// Go on with events as they happen
    #[arg(long, requires = "events")]
    follow: bool,
    /// Print the state as JSON, with every counter; of events, an object in a line for each
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        if self.events {
            return events::show(&self);
        }
        let status = match node::ask(self.node.as_deref(), "onbeat show", &Request::Show)? {
            Response::Status { status } => status,
            _ => return Err(node::unexpected()),
        };
        match (&self.stream, self.json) {
            (None, false) => output::print(&node_table(&status))?,
            (None, true) => output::print_json(&status)?,
            (Some(name), false) => output::print(&stream_detail(find(&status, name)?))?,
            (Some(name), true) => output::print_json(find(&status, name)?)?,
        }
        Ok(Answer::Good)
    }
}

fn find<'a>(status: &'a NodeStatus, name: &str) -> Result<&'a StreamStatus> {
    /// More names than this help nobody.
    const NAMED: usize = 16;
    status.streams.iter().find(|stream| stream.name == name).ok_or_else(|| {
        let names: Vec<&str> = status.streams.iter().map(|stream| stream.name.as_str()).collect();
        let more = if names.len() > NAMED { ", ... (all of them: onbeat show)" } else { "" };
        let streams = match names.as_slice() {
            [] => "it has none".to_owned(),
            _ => format!("streams there: {}{more}", names[..names.len().min(NAMED)].join(", ")),
        };
        Failure::new(format!("node {:?} has no stream {name:?}; {streams}", status.node))
    })
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
        assert!(show.events && show.follow && show.since == Some(Since::Number(7)));
        assert!(parse("show a --follow").is_err() && parse("show --since 7").is_err());
    }

    #[test]
    fn a_stream_that_is_not_there_is_answered_with_a_few_that_are() {
        let stream = |n| StreamStatus { name: format!("s{n}"), ..StreamStatus::default() };
        let node = |n| NodeStatus {
            node: "a".into(),
            streams: (0..n).map(stream).collect(),
            ..NodeStatus::default()
        };
        let message = |n| format!("{:?}", find(&node(n), "x").unwrap_err());
        assert!(message(0).contains("it has none"));
        assert!(message(2).contains("streams there: s0, s1\""), "{}", message(2));
        assert!(message(4096).contains("s15, ... (all of them: onbeat show)"));
        assert_eq!(find(&node(3), "s2").unwrap().name, "s2");
    }
}
