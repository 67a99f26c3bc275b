//! Requests to a running node.

use std::path::Path;

use onbeat_node::control::{Client, ClientError, DIRECTORY, Request};

use onbeat_terminal::exit::{Answer, Failure, Result};
use onbeat_terminal::output;

/// Connects to a node, or to the only one that runs; `command` selects one among several.
pub(crate) fn connect(node: Option<&str>, command: &str) -> Result<Client> {
    match Client::to_node(node, Path::new(DIRECTORY)) {
        // The names are those of control sockets, which begin with a letter or digit.
        Err(ClientError::SeveralNodes { nodes }) => Err(Failure::new(format!(
            "several nodes run here: {}; say which, as in: {command} {}",
            nodes.join(", "),
            nodes.first().map_or("NODE", String::as_str),
        ))),
        client => Ok(client?),
    }
}

/// Makes a node do something, and prints what it did.
pub(crate) fn order(node: Option<&str>, command: &str, request: &Request) -> Result {
    let done = connect(node, command)?.order(request)?;
    output::print(&format!("{done}\n"))?;
    Ok(Answer::Good)
}
