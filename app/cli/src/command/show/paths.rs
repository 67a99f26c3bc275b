//! `onbeat show --paths`

use onbeat_node::control::paths_table;
use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::output;

use crate::node;

pub(super) fn show(node: Option<&str>, names: &[String], json: bool) -> Result {
    let mut client = node::connect(node, "onbeat show --paths")?;
    let streams = match names {
        [] => client.paths(None)?,
        _ => {
            // Names the streams if there is none of a name.
            client.streams(names.to_vec())?;
            let paths = names.iter().map(|name| client.paths(Some(name.clone())));
            paths.collect::<std::result::Result<Vec<_>, _>>()?.concat()
        }
    };
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
