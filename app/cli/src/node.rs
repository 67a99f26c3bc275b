//! Asking a running node.

use std::path::Path;

use onbeat_node::control::{Client, ClientError, DIRECTORY, Request, Response};

use onbeat_terminal::exit::{Answer, Failure, Result};
use onbeat_terminal::output;

/// Asks a node, or the only one that runs; `command` is how to ask one among several.
pub(crate) fn ask(node: Option<&str>, command: &str, request: &Request) -> Result<Response> {
    Ok(connect(node, command)?.request(request)?)
}

/// As [`ask`], for more than one request.
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

/// Asks for something to be done, and prints what was.
pub(crate) fn order(node: Option<&str>, command: &str, request: &Request) -> Result {
    match ask(node, command, request)? {
        Response::Done { message } => output::print(&format!("{message}\n"))?,
        _ => return Err(unexpected()),
    }
    Ok(Answer::Good)
}

/// A response of another type than that of the request.
pub(crate) fn unexpected() -> Failure {
    Failure::new("unexpected response of the node; use the version of onbeat that the node runs")
}
