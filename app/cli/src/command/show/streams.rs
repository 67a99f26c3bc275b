//! `onbeat show --stream`

use onbeat_node::control::stream_detail;
use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::output;

use crate::node;

/// Prints the counters of the streams with these names. JSON of one stream is an object, that of several an array.
pub(super) fn show(node: Option<&str>, names: Vec<String>, json: bool) -> Result {
    let streams = node::connect(node, "onbeat show")?.streams(names)?;
    match (&streams[..], json) {
        ([stream], true) => output::print_json(stream)?,
        (_, true) => output::print_json(&streams)?,
        (_, false) => output::print(&streams.iter().map(stream_detail).collect::<String>())?,
    }
    Ok(CommandResult::Success)
}
