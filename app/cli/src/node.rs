//! Requests to a running node.

use std::path::Path;

use onbeat_node::control::{Client, ClientError, DIRECTORY, Request};

use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output;

/// Connects to the node with this name, or to the only running node. `command` is the command line that the
/// error shows if several nodes run.
pub(crate) fn connect(node: Option<&str>, command: &str) -> Result<Client> {
    match Client::to_node(node, Path::new(DIRECTORY)) {
        // The names are those of control sockets, which start with a letter or digit.
        Err(ClientError::SeveralNodes { nodes }) => Err(Failure::new(format!(
            "several nodes are running: {}; select one, for example: {command} {}",
            nodes.join(", "),
            nodes.first().map_or("NODE", String::as_str),
        ))),
        client => Ok(client?),
    }
}

/// Sends a request to a node, and prints its response.
pub(crate) fn order(node: Option<&str>, command: &str, request: &Request) -> Result {
    let done = connect(node, command)?.order(request)?;
    output::print(&format!("{done}\n"))?;
    Ok(CommandResult::Success)
}
