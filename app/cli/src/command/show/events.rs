//! `onbeat show --events`

use std::ops::ControlFlow;

use onbeat_node::control::{Client, Event, EventStart};
use onbeat_report::format::count;
use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::{exit, output};

/// Selection and output format of events.
pub(super) struct EventOptions {
    pub(super) since: Option<EventStart>,
    /// None: events of all.
    pub(super) streams: Vec<String>,
    pub(super) follow: bool,
    pub(super) json: bool,
}

/// Prints stored events and, with `follow`, new events as they occur.
pub(super) fn show(client: &mut Client, options: &EventOptions) -> Result {
    let alive = client.events(options.since.clone(), |events, missed| {
        if missed > 0 {
            exit::warn(format!("{} before these no longer stored", count(missed, "event")));
        }
        let is_named = |stream: &String| options.streams.contains(stream);
        let wanted = |event: &&Event| {
            options.streams.is_empty() || event.stream.as_ref().is_some_and(is_named)
        };
        let text = events.iter().filter(wanted).map(|event| line(event, options.json));
        let printed = output::print_to_reader(&text.collect::<Result<String>>()?)?;
        let ends = !options.follow || printed == output::Reader::Closed;
        Ok::<_, Failure>(if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if !alive {
        exit::warn("the node has exited: no more events");
    }
    Ok(CommandResult::Success)
}

fn line(event: &Event, json: bool) -> Result<String> {
    if json {
        let line = serde_json::to_string(event).map_err(Failure::new)?;
        return Ok(line + "\n");
    }
    Ok(format!("{}  {}  {event}\n", event.time, event.number))
}
