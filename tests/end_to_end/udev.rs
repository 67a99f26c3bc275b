//! A node beside udev, which names interfaces by files: a node uses no interface before it has its name.
//!
//! ```text
//!   red0 [ node ] eth0 --- far0
//! ```
//!
//! Both, and udev, are in a mount and a network namespace of their own. A rule makes udev slow.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{CommandOutput, can_run, program, wait_for};
use onbeat_node::control::{Event, EventDetail, LinkState, NodeStatus};
use onbeat_testing::{command, require_that};
use serde_json::Value;

const UDEV: &str = "/lib/systemd/systemd-udevd";
/// Addresses of the interface that the file of the node means, and of one that udev names "lan0".
const MEANT: &str = "02:00:00:00:00:0a";
const OTHER: &str = "02:00:00:00:00:0b";

/// The namespaces, until the first process in them is stopped. Files: udev's, and that of the node.
const NAMESPACES: &str = r#"
mount -t tmpfs tmpfs /run
mount -t sysfs sysfs /sys
mount -t bpf bpf /sys/fs/bpf
mkdir -p /run/udev/rules.d /run/systemd/network
echo 'SUBSYSTEM=="net", ACTION=="add", KERNEL=="eth0", PROGRAM="/bin/sleep 1"' >/run/udev/rules.d/01-slow.rules
printf '[Match]\nMACAddress=02:00:00:00:00:0b\n[Link]\nName=lan0\n' >/run/systemd/network/10-other.link
printf '[Match]\nMACAddress=02:00:00:00:00:0a\n[Link]\nMACAddressPolicy=none\n' >/run/systemd/network/10-meant.link
cat >/run/n.toml <<END
[node]
name = "n"
[[port]]
name = "path"
interface = "eth0"
[[port]]
name = "host"
interface = "red0"
create = "veth"
mtu = 1494
[[stream]]
name = "axis"
generate = true
member = [{ port = "host", identify = { type = "null", destination = "01:00:5e:00:00:01", vlan = 100 } }]
egress = [{ port = "path", tag = "r-tag" }]
END
echo ready
exec sleep 600
"#;

/// A process that is stopped with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Host(Process);

impl Host {
    fn new() -> Host {
        let mut unshare = command(Path::new("unshare"));
        unshare.args(["--mount", "--net", "--propagation", "private", "sh", "-ec", NAMESPACES]);
        let mut child = unshare.stdout(Stdio::piped()).spawn().expect("unshare starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n");
        Host(Process(child))
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = command(Path::new("nsenter"));
        command.args(["--mount", "--net", "--target", &self.0.0.id().to_string(), program]);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> CommandOutput {
        self.command(program, arguments).output().expect("nsenter starts").into()
    }

    fn start(&self, program: &str, arguments: &[&str]) -> Process {
        let mut command = self.command(program, arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Process(command.spawn().expect("nsenter starts"))
    }

    fn onbeat(&self, arguments: &[&str]) -> CommandOutput {
        self.run(program().to_str().expect("a path"), arguments)
    }

    #[track_caller]
    fn ip(&self, arguments: &str) -> String {
        let ran = self.run("ip", &arguments.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "ip {arguments}");
        ran.out
    }

    /// Plugs a NIC in, which the kernel names "eth0".
    fn plug(&self, mac: &str) {
        self.ip(&format!("link add eth0 address {mac} mtu 1600 type veth peer name far0"));
        self.ip("link set far0 mtu 1600 up");
    }

    /// Waits until udev has named the other NIC. No program uses it, and it is off.
    #[track_caller]
    fn other_is_unused(&self) {
        let exists = || self.run("ip", &["link", "show", "lan0"]).code == 0;
        wait_for("the other name", exists);
        // The daemon reads link events in order.
        self.ip("link set far0 down");
        let links: Value = serde_json::from_str(&self.ip("-j -d link show lan0")).expect("JSON");
        let link = &links[0];
        assert!(link["xdp"].is_null() && link["operstate"] == "DOWN", "{link}");
        assert!(!link["flags"].as_array().unwrap().contains(&"UP".into()), "{link}");
    }

    fn events(&self) -> Vec<Event> {
        let shown = self.onbeat(&["show", "n", "--events", "--json"]);
        shown.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn status(&self) -> Option<NodeStatus> {
        serde_json::from_str(&self.onbeat(&["show", "n", "--json"]).out).ok()
    }

    fn link(&self) -> Option<LinkState> {
        let status = self.status()?;
        status.ports.iter().find(|port| port.name == "path").map(|port| port.link)
    }
}

#[test]
fn a_node_uses_no_interface_before_udev_has_named_it() {
    let has_udev = || require_that(fs::exists(UDEV).is_ok_and(|exists| exists), "systemd-udevd");
    if !can_run() || !has_udev() {
        return;
    }
    let host = Host::new();
    let _udev = host.start(UDEV, &[]);
    let listens = || host.run("test", &["-e", "/run/udev/control"]).code == 0;
    wait_for("udev", listens);

    // At the start: the only "eth0" gets another name.
    host.plug(OTHER);
    let refused = host.onbeat(&["run", "/run/n.toml"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("interface \"eth0\" not found; interfaces here: "), "{refused:?}");
    assert!(refused.err.contains("lan0"), "{refused:?}");
    host.other_is_unused();
    host.ip("link delete lan0");

    // A start waits for the name.
    host.plug(MEANT);
    let _node = host.start(program().to_str().unwrap(), &["run", "/run/n.toml"]);
    wait_for("the node", || host.link() == Some(LinkState::Up));

    // While the node runs: another NIC is plugged in, before that of the port is back.
    host.ip("link delete eth0");
    wait_for("the port is away", || host.link() == Some(LinkState::Missing));
    host.plug(OTHER);
    host.other_is_unused();
    assert_eq!(host.link(), Some(LinkState::Missing));
    let is_back = |event: &Event| matches!(event.detail, EventDetail::PortBack { .. });
    let is_port = |event: &&Event| event.port.as_deref() == Some("path");
    let events = || host.events().into_iter().filter(|event| is_port(&event)).collect::<Vec<_>>();
    assert!(!events().iter().any(is_back), "{:?}", events());
    host.ip("link delete lan0");
    host.plug(MEANT);
    wait_for("the port is back", || {
        matches!(&events().last().unwrap().detail, EventDetail::PortBack { why: None, .. })
    });
    wait_for("its link", || host.link() == Some(LinkState::Up));
    let links: Value = serde_json::from_str(&host.ip("-j -d link show eth0")).expect("JSON");
    assert!(links[0]["xdp"].is_object() && links[0]["address"] == MEANT, "{links}");
    let down = host.onbeat(&["down", "n"]);
    assert_eq!((down.code, down.err.as_str()), (0, ""), "{down:?}");
}
