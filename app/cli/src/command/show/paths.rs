//! `onbeat show --paths`

use onbeat_node::control::paths_table;
use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::output;

use crate::node;

pub(super) fn show(node: Option<&str>, stream: Option<String>, json: bool) -> Result {
    let mut client = node::connect(node, "onbeat show --paths")?;
    if let Some(name) = &stream {
        // Names the streams if there is none of this name.
        client.status()?.stream(name)?;
    }
    let streams = client.paths(stream)?;
    match json {
        true => output::print_json(&streams)?,
        false => output::print(&paths_table(&streams))?,
    }
    Ok(CommandResult::Success)
}
