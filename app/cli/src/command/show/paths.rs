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
        // Wildcards and PRP have no vector recovery.
        false if streams.is_empty() => {
            let name = client.status()?.node;
            output::print(&format!(
                "no stream has sequence recovery; LANs, and the paths of wildcards: onbeat show {name} --nodes\n"
            ))?;
        }
        false => output::print(&paths_table(&streams))?,
    }
    Ok(CommandResult::Success)
}
