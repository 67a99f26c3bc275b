//! `onbeat show --nodes`

use onbeat_node::control::nodes_table;
use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::output;

use crate::node;

pub(super) fn show(node: Option<&str>, json: bool) -> Result {
    let nodes = node::connect(node, "onbeat show --nodes")?.nodes()?;
    match json {
        true => output::print_json(&nodes)?,
        false => output::print(&nodes_table(&nodes))?,
    }
    Ok(CommandResult::Success)
}
