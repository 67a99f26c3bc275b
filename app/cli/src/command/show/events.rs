//! `onbeat show --events`

use onbeat_node::control::{ClientError, Event, Request, Response, Since};
use onbeat_report::format::count;

use super::Arguments;
use onbeat_terminal::exit::{Answer, Failure, Result};
use onbeat_terminal::{exit, output};

use crate::node;

/// What of RFC 3339 is compared with: digits where these are.
const TIME: &str = "0000-00-00T00:00:00.000000Z";

/// A number, or a time or its beginning.
pub(super) fn since(text: &str) -> std::result::Result<Since, String> {
    if let Ok(number) = text.parse() {
        return Ok(Since::Number(number));
    }
    let alike = |(given, like): (char, char)| {
        if like == '0' { given.is_ascii_digit() } else { given == like }
    };
    // In whole seconds, too.
    let begins = text.strip_suffix('Z').unwrap_or(text);
    let is_time = begins.len() >= "0000-00".len() && begins.len() < TIME.len();
    if is_time && begins.chars().zip(TIME.chars()).all(alike) {
        return Ok(Since::Time(begins.to_owned()));
    }
    Err("give the number of an event, or a time in UTC such as 2025-01-31T12:30:00Z".to_owned())
}

/// Shows what happened, and what happens from now on where that is asked for.
pub(super) fn show(arguments: &Arguments) -> Result {
    let mut client = node::connect(arguments.node.as_deref(), "onbeat show --events")?;
    let mut since = arguments.since.clone();
    let mut wait = false;
    loop {
        let (events, missed, last) = match client.request(&Request::Events { since, wait }) {
            Ok(Response::Events { events, missed, last }) => (events, missed, last),
            // It was waiting for events that no longer come.
            Err(ClientError::Closed { .. }) if wait => {
                exit::warn("the node has exited: no more events");
                return Ok(Answer::Good);
            }
            Ok(_) => return Err(node::unexpected()),
            Err(error) => return Err(error.into()),
        };
        if missed > 0 {
            exit::warn(format!("{} before these no longer stored", count(missed, "event")));
        }
        let wanted =
            |event: &&Event| arguments.stream.is_none() || event.stream == arguments.stream;
        let text = events.iter().filter(wanted).map(|event| line(event, arguments.json));
        let printed = output::print_to_reader(&text.collect::<Result<String>>()?)?;
        if !arguments.follow || printed == output::Reader::Gone {
            return Ok(Answer::Good);
        }
        since = Some(Since::Number(last));
        wait = true;
    }
}

fn line(event: &Event, json: bool) -> Result<String> {
    if json {
        let line = serde_json::to_string(event).map_err(Failure::new)?;
        return Ok(line + "\n");
    }
    Ok(format!("{}  {}  {event}\n", event.time, event.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_a_time_or_its_beginning() {
        let time = |text: &str| Ok(Since::Time(text.to_owned()));
        assert_eq!(since("0"), Ok(Since::Number(0)));
        assert_eq!(since("4711"), Ok(Since::Number(4711)));
        assert_eq!(since("2025-01-31T12:30:00Z"), time("2025-01-31T12:30:00"));
        for text in ["2025-01", "2025-01-31", "2025-01-31T12:30", "2025-01-31T12:30:00.123456"] {
            assert_eq!(since(text), time(text));
        }
        for text in
            ["", "-1", "yesterday", "2025-1-31", "2025-01-31 12:30", "2025-01-31T12:30+01:00"]
        {
            assert!(since(text).is_err(), "{text}");
        }
    }
}
