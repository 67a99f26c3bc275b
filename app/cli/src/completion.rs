//! Completion of names on this host: interfaces, running nodes and their streams.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Arg;
use onbeat_netdev::Handle;
use onbeat_node::control::{Client, DIRECTORY, discover};
use onbeat_terminal::completions::{self, Values, is_named};

use crate::command::laboratory;

/// Returns the values of an argument, selected by its value name in help.
pub(crate) fn values(argument: &Arg) -> Option<Values> {
    let names_one = matches!(argument.get_long(), Some("interface" | "device"));
    let is_option = names_one && is_named(argument, "NAME");
    if is_option || is_named(argument, "INTERFACE") || is_named(argument, "IFACE") {
        Some(interfaces)
    } else if is_named(argument, "NODE") {
        Some(nodes)
    } else if is_named(argument, "STREAM") || argument.get_long() == Some("stream") {
        Some(streams)
    } else {
        None
    }
}

fn interfaces() -> Vec<String> {
    let links = Handle::open().and_then(|handle| handle.links()).unwrap_or_default();
    links.into_iter().map(|link| link.name).collect()
}

fn nodes() -> Vec<String> {
    let running = running(Path::new(DIRECTORY));
    running.into_iter().map(|(name, _)| name).collect()
}

fn running(directory: &Path) -> Vec<(String, Client)> {
    let connect =
        |(name, path): (String, PathBuf)| Some((name, Client::connect_briefly(&path).ok()?));
    discover(directory).into_iter().filter_map(connect).collect()
}

/// Streams of the nodes named on the command line, or of all nodes if none is named.
fn streams() -> Vec<String> {
    let mut nodes = running(Path::new(DIRECTORY));
    let words: Vec<OsString> = std::env::args_os().collect();
    let is_named = |name: &str| words.iter().any(|word| word == name);
    if nodes.iter().any(|(name, _)| is_named(name)) {
        nodes.retain(|(name, _)| is_named(name));
    }
    let statuses = nodes.into_iter().filter_map(|(_, mut client)| client.status().ok());
    statuses.flat_map(|status| status.streams).map(|stream| stream.name).collect()
}

/// Executes another program to complete words of its commands: `PROGRAM -- onbeat lab WORD...`. Returns if no
/// shell requests completions, the words belong to another command, or that program is not installed.
pub(crate) fn complete_laboratory() {
    let Some(words) = completions::requested() else { return };
    let mut words = words.skip(1);
    let Some(command) = words.next() else { return };
    let command = laboratory::COMMANDS.into_iter().find(|name| command == *name);
    if let (Some(command), Some(_)) = (command, words.next()) {
        // If the other program cannot be executed, this one completes the words.
        let _ = laboratory::execute(command, std::env::args_os().skip(1));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory;

    use super::*;
    use crate::args::Arguments;

    /// List each new argument that names an interface, a node or a stream here.
    #[test]
    fn arguments_that_name_objects_of_this_host_are_completed() {
        let found = completions::arguments(&Arguments::command(), values);
        let expected: [(&str, &[&str]); 25] = [
            ("onbeat doctor", &["interfaces"]),
            ("onbeat protect", &["lans", "protected"]),
            ("onbeat show", &["node", "stream"]),
            ("onbeat top", &["node", "stream"]),
            ("onbeat metrics", &["stream"]),
            ("onbeat reset", &["stream", "node"]),
            ("onbeat stream add", &["node"]),
            ("onbeat stream change", &["node"]),
            ("onbeat stream remove", &["streams", "node"]),
            ("onbeat stream prove", &["streams", "node"]),
            ("onbeat stream set-number", &["stream", "node"]),
            ("onbeat reload", &["node"]),
            ("onbeat down", &["node"]),
            ("onbeat yang get", &["source"]),
            ("onbeat yang set", &["node"]),
            ("onbeat yang netconf", &["node"]),
            ("onbeat irq top", &["device"]),
            ("onbeat delay mirror", &["source"]),
            ("onbeat delay hooks", &["arrivals", "departures"]),
            ("onbeat delay calibrate mirror", &["source"]),
            ("onbeat powerlink mn", &["interface"]),
            ("onbeat powerlink cn", &["interface"]),
            ("onbeat powerlink sniff", &["source"]),
            ("onbeat powerlink sdo read", &["interface"]),
            ("onbeat powerlink sdo write", &["interface"]),
        ];
        let of = |(command, arguments): (&str, &[&str])| {
            (command.to_owned(), arguments.iter().map(|name| (*name).to_owned()).collect())
        };
        assert_eq!(found, BTreeMap::from_iter(expected.map(of)));
    }

    #[test]
    fn interfaces_are_read_from_the_kernel() {
        assert!(interfaces().iter().any(|name| name == "lo"));
    }
}
