//! `onbeat show --nodes`

use onbeat_node::control::{NodeTables, nodes_table, wildcards_table};
use onbeat_terminal::exit::{CommandResult, Result};
use onbeat_terminal::output;

use crate::node;

pub(super) fn show(node: Option<&str>, json: bool) -> Result {
    let tables = node::connect(node, "onbeat show --nodes")?.tables()?;
    match (json, &tables) {
        (true, tables) => output::print_json(tables)?,
        (false, NodeTables::Prp(nodes)) => output::print(&nodes_table(nodes))?,
        (false, NodeTables::Wildcards(tables)) => output::print(&wildcards_table(tables))?,
    }
    Ok(CommandResult::Success)
}
