//! `onbeat show --events`

use std::ops::ControlFlow;

use onbeat_node::control::{Client, Event, EventStart};
use onbeat_report::format::count;
use onbeat_terminal::exit::{Answer, Failure, Result};
use onbeat_terminal::{exit, output};

/// Which events are shown, and how.
pub(super) struct EventOptions {
    pub(super) since: Option<EventStart>,
    pub(super) stream: Option<String>,
    pub(super) follow: bool,
    pub(super) json: bool,
}

/// Shows what happened, and what happens from now on where that is asked for.
pub(super) fn show(client: &mut Client, shown: &EventOptions) -> Result {
    let alive = client.events(shown.since.clone(), |events, missed| {
        if missed > 0 {
            exit::warn(format!("{} before these no longer stored", count(missed, "event")));
        }
        let wanted = |event: &&Event| shown.stream.is_none() || event.stream == shown.stream;
        let text = events.iter().filter(wanted).map(|event| line(event, shown.json));
        let printed = output::print_to_reader(&text.collect::<Result<String>>()?)?;
        let ends = !shown.follow || printed == output::Reader::Closed;
        Ok::<_, Failure>(if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if !alive {
        exit::warn("the node has exited: no more events");
    }
    Ok(Answer::Good)
}

fn line(event: &Event, json: bool) -> Result<String> {
    if json {
        let line = serde_json::to_string(event).map_err(Failure::new)?;
        return Ok(line + "\n");
    }
    Ok(format!("{}  {}  {event}\n", event.time, event.number))
}
