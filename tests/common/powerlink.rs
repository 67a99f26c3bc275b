//! Nodes of the program connected by a cable, and their results.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver as Lines};
use std::thread;
use std::time::Instant;

use onbeat_lab::traffic::{Receiver, socket};
use onbeat_lab::world::die_with_parent;
use onbeat_netdev::{Bridge, Handle, Namespace, VethEnd};
use serde_json::Value;

use super::json::{can_validate, validate};
use super::{TemporaryFile, program};

/// A row of a table, by its first cell.
pub(crate) fn row<'a>(result: &'a Value, figure: &str, first: &str) -> &'a Vec<Value> {
    let rows = result["figures"][figure]["rows"].as_array().expect("a table");
    let found = rows.iter().find(|row| row[0] == first);
    found.and_then(Value::as_array).unwrap_or_else(|| panic!("{first} in {rows:?}"))
}

/// A cycle and timeouts that a busy machine can meet.
pub(crate) const NETWORK: &str = r#"
[network]
cycle-us = 20000
async-slot-us = 2000
loss-threshold = 1000

[managing]
interface = "mn"

[[node]]
id = 1
interface = "cn"
pres-timeout-us = 15000
input = [{ name = "back", type = "u16", simulate = "copy" }]
output = [{ name = "there", type = "u16", simulate = "counter" }]
"#;

/// Sends SIGINT, and returns exit status and result.
pub(crate) fn end(child: Child) -> (Option<i32>, Value) {
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    if can_validate() {
        validate(std::str::from_utf8(&output.stdout).unwrap());
    }
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

/// A managing node's namespace and a controlled node's, with a cable between them.
pub(crate) struct Pair {
    pub(crate) mn: Handle,
    pub(crate) cn: Handle,
}

impl Pair {
    pub(crate) fn new() -> Self {
        let [mn, cn] =
            [(); 2].map(|()| Handle::in_namespace(&Namespace::with_loopback().unwrap()).unwrap());
        let far = VethEnd::new("cn").namespace(cn.namespace());
        mn.create_veth(&VethEnd::new("mn"), &far).unwrap();
        for (handle, name) in [(&mn, "mn"), (&cn, "cn")] {
            handle.set_ipv6(name, false).unwrap();
            handle.set_up(name).unwrap();
        }
        mn.wait_carrier("mn", super::BOUND).unwrap();
        Pair { mn, cn }
    }

    /// Receiver of the controlled node's frames: on the managing node's interface.
    pub(crate) fn frames_of_controlled(&self) -> Receiver {
        Receiver::new(socket::receiver(self.mn.namespace(), "mn").unwrap())
    }

    /// Receiver of the managing node's frames.
    pub(crate) fn frames_of_managing(&self) -> Receiver {
        Receiver::new(socket::receiver(self.cn.namespace(), "cn").unwrap())
    }

    pub(crate) fn controlled(&self, file: &TemporaryFile) -> Child {
        start(&self.cn, &["powerlink", "cn", file.name(), "--node", "1", "--json", "--quiet"])
    }

    pub(crate) fn managing(&self, file: &TemporaryFile) -> Child {
        start(&self.mn, &["powerlink", "mn", file.name(), "--json", "--quiet"])
    }
}

/// A hub in a namespace, its ports p0 and so on, and a namespace behind each with an interface of this name.
pub(crate) fn hub<const N: usize>(names: [&str; N]) -> (Handle, [Handle; N]) {
    let namespace = || Handle::in_namespace(&Namespace::with_loopback().unwrap()).unwrap();
    let hub = namespace();
    hub.create_bridge(&Bridge::new("br0").multicast_snooping(false)).unwrap();
    hub.set_ipv6("br0", false).unwrap();
    hub.set_up("br0").unwrap();
    let mut number = 0;
    let ends = names.map(|name| {
        let (handle, port) = (namespace(), format!("p{number}"));
        number += 1;
        let far = VethEnd::new(name).queues(1, 1).namespace(handle.namespace());
        hub.create_veth(&VethEnd::new(&port).queues(1, 1), &far).unwrap();
        hub.set_master(&port, Some("br0")).unwrap();
        for (handle, name) in [(&hub, port.as_str()), (&handle, name)] {
            handle.set_ipv6(name, false).unwrap();
            handle.set_up(name).unwrap();
        }
        handle.wait_carrier(name, super::BOUND).unwrap();
        handle
    });
    (hub, ends)
}

pub(crate) fn start(handle: &Handle, arguments: &[&str]) -> Child {
    start_with(handle, arguments, Stdio::inherit())
}

fn start_with(handle: &Handle, arguments: &[&str], errors: Stdio) -> Child {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    // A test that fails leaves no node.
    die_with_parent(&mut command);
    handle.namespace().start_in(&mut command).spawn().unwrap()
}

/// The same, with the lines of its standard error.
pub(crate) fn start_and_read(handle: &Handle, arguments: &[&str]) -> (Child, Lines<String>) {
    let mut child = start_with(handle, arguments, Stdio::piped());
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let (line, read) = mpsc::channel();
    // The thread ends with the program, and reads all: the program must not wait for it.
    thread::spawn(move || {
        for text in lines.map_while(Result::ok) {
            let _ = line.send(text);
        }
    });
    (child, read)
}

/// Waits for a line with a text.
pub(crate) fn wait_for_line(lines: &Lines<String>, text: &str) {
    let (until, mut before) = (Instant::now() + super::BOUND, Vec::new());
    // A node that fails again and again prints lines without end.
    while let Ok(line) = lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
        if line.contains(text) {
            return;
        }
        before.push(line);
    }
    panic!("no line {text:?} in {before:#?}");
}
