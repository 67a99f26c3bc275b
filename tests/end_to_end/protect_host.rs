//! What `onbeat protect` changes on a host, and what it refuses: the ssh session of the caller, saved nodes, MTUs, RedBoxes,
//! nodes of other namespaces, interruptions.
//!
//! ```text
//!   sshd -- shell (SSH_CONNECTION) -- sudo -- onbeat protect lana lanb
//!
//!   lana -- lana.5 (VLAN) -- br9 (bridge): the session can use any of them
//! ```

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_netdev::{Bridge, Ethtool, Handle, Namespace, PrivateMounts, VethEnd};
use onbeat_testing::require_that;

use crate::common::process::Process;
use crate::common::{
    BOUND, CommandOutput, assert_gone, can_run, make_executable, onbeat, program, run, run_in,
    wait_for,
};
use crate::protect::{LANS, Network, end_daemon, network, nodes, process_of};

/// Runs `ip` in a namespace; returns whether it succeeds.
fn ip(handle: &Handle, arguments: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(arguments.split(' ')).stderr(Stdio::null());
    handle.namespace().start_in(&mut command).status().is_ok_and(|status| status.success())
}

/// Runs the program below a shell of an ssh session to `address`, without that variable itself, as sudo does.
fn run_by_sudo(handle: &Handle, address: &str, arguments: &[&str]) -> CommandOutput {
    let mut shell = Command::new("sh");
    shell.args(["-c", "env -i \"$0\" \"$@\"; exit $?"]).arg(program()).args(arguments);
    shell.env("SSH_CONNECTION", format!("203.0.113.9 40000 {address} 22"));
    handle.namespace().start_in(&mut shell).output().expect("a shell").into()
}

/// A node that a test creates, removed also if the test fails.
struct Removal<'a>(&'a Handle, &'static str);

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        run_in(self.0.namespace(), &["protect", "--undo", self.1]);
    }
}

#[test]
fn a_change_below_the_session_is_refused_also_behind_sudo() {
    if !can_run() {
        return;
    }
    let h1 = &network().h1;
    let check = ["protect", "lana", "lanb", "--name", "prot7", "--mtu", "1500", "--check"];
    let add = |interface: &str, address: &str| {
        h1.set_up(interface).unwrap();
        h1.add_address(interface, address.parse::<IpAddr>().unwrap(), 24).unwrap();
    };
    let refused = |address: &str, text: &str| {
        let ran = run_by_sudo(h1, address, &check);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
        assert!(ran.err.contains(&format!("uses {address} on {text}, ")), "{}", ran.err);
    };
    add("lana", "198.51.100.1");
    refused("198.51.100.1", "\"lana\"");
    // Another session, and no change of an MTU.
    let other = run_by_sudo(h1, "198.51.100.2", &check);
    assert_eq!((other.code, other.err.as_str()), (0, ""));
    let unchanged = run_by_sudo(h1, "198.51.100.1", &[&check[..5], &["--check"]].concat());
    assert_eq!((unchanged.code, unchanged.err.as_str()), (0, ""));
    // What is no address of a session is ignored.
    let hostile = run_by_sudo(h1, "198.51.100.1; 22 $(x)", &check);
    assert_eq!((hostile.code, hostile.err.as_str()), (0, ""));
    let mut own = onbeat();
    own.args(check).env("SSH_CONNECTION", "203.0.113.9 40000 198.51.100.1 22");
    let own: CommandOutput = h1.namespace().start_in(&mut own).output().expect("it starts").into();
    assert_eq!(own.code, 2, "{}", own.out);

    // The other end of a veth is not above it.
    h1.create_veth(&VethEnd::new("beside"), &VethEnd::new("beyond")).unwrap();
    add("beyond", "198.51.104.1");
    let beside = run_by_sudo(
        h1,
        "198.51.104.1",
        &["protect", "beside", "lanb", "--name", "prot7", "--mtu", "1500", "--check"],
    );
    assert_eq!((beside.code, beside.err.as_str()), (0, ""));
    // The path is refused for its bridge as well, with its own remedy.
    h1.create_bridge(&Bridge::new("br9")).unwrap();
    h1.set_master("lana", Some("br9")).unwrap();
    add("br9", "198.51.102.1");
    refused("198.51.102.1", "\"br9\", above \"lana\"");
    h1.set_master("lana", None).unwrap();
    if ip(h1, "link add link lana name mv0 type macvlan") {
        add("mv0", "198.51.103.1");
        refused("198.51.103.1", "\"mv0\", above \"lana\"");
    }
    // Where the kernel has VLANs; others are as a macvlan to the command.
    if ip(h1, "link add link lana name lana.5 type vlan id 5") {
        add("lana.5", "198.51.101.1");
        refused("198.51.101.1", "\"lana.5\", above \"lana\"");
        h1.set_master("lana.5", Some("br9")).unwrap();
        refused("198.51.102.1", "\"br9\", above \"lana\"");
    }
}

#[test]
fn mtus_are_raised_and_restored() {
    if !can_run() {
        return;
    }
    let h1 = &network().h1;
    let _removal = Removal(h1, "prot8");
    let mtu = |interface: &str| h1.link(interface).unwrap().mtu;
    let made =
        run_in(h1.namespace(), &["protect", "lana", "lanb", "--name", "prot8", "--mtu", "1500"]);
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{}", made.out);
    assert_eq!([mtu("prot8"), mtu("lana"), mtu("lanb")], [1500, 1506, 1506]);
    for (interface, mtu, cause) in [
        (
            "prot8",
            9000,
            "no packets of more than 1500 octets from it; run: ip link set prot8 mtu 1500",
        ),
        (
            "lana",
            1500,
            "the longest frames of port \"host\" no longer fit: port \"a\" requires 1506; run: ip link set lana mtu 1506",
        ),
    ] {
        let before = h1.link(interface).unwrap().mtu;
        h1.set_mtu(interface, mtu).unwrap();
        wait_for("an event with the remedy", || {
            let events = run(&["show", "prot8", "--events"]).out;
            events.lines().any(|line| line.contains(cause))
        });
        h1.set_mtu(interface, before).unwrap();
    }
    // Not below the session that runs the command.
    h1.add_address("prot8", IpAddr::from([198, 51, 105, 1]), 24).unwrap();
    let refused = run_by_sudo(h1, "198.51.105.1", &["protect", "--undo", "prot8"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{}", refused.err);
    assert!(refused.err.contains("uses 198.51.105.1 on \"prot8\""), "{}", refused.err);
    let refused = run_by_sudo(h1, "198.51.105.1", &["down", "prot8"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{}", refused.err);
    assert!(refused.err.contains("uses 198.51.105.1 on \"prot8\""), "{}", refused.err);
    // The route to the client leads over it, or over an interface whose MTU returns.
    assert!(ip(h1, "address add 198.51.106.1/32 dev lo") && ip(h1, "link set lo up"));
    for interface in ["prot8", "lana"] {
        assert!(ip(h1, &format!("route replace 203.0.113.9/32 dev {interface}")));
        let refused = run_by_sudo(h1, "198.51.106.1", &["protect", "--undo", "prot8"]);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{}", refused.err);
        let text = format!("uses 198.51.106.1 on {interface:?}, which would ");
        assert!(refused.err.contains(&text), "{}", refused.err);
    }
    assert!(ip(h1, "route del 203.0.113.9/32"));
    let undone = run_in(h1.namespace(), &["protect", "--undo", "prot8"]);
    assert_eq!((undone.code, undone.err.as_str()), (0, ""), "{}", undone.out);
    assert_eq!(LANS.map(mtu), [1500, 1500]);
    assert_gone("prot8");
}

#[test]
fn stations_behind_an_interface_are_protected() {
    if !can_run() {
        return;
    }
    let network = network();
    let (h1, station) = (&network.h1, &network.san);
    let _removals = [Removal(h1, "prot9"), Removal(&network.h2, "prot10")];
    let far = VethEnd::new("eth9").namespace(station.namespace());
    h1.create_veth(&VethEnd::new("eth3"), &far).unwrap();
    for (handle, interface) in [(h1, "eth3"), (station, "eth9")] {
        handle.set_up(interface).unwrap();
    }
    let before = h1.link("eth3").unwrap();
    let arguments = ["protect", "lana", "lanb", "--name", "prot9", "--for", "eth3"];
    let planned = run_in(h1.namespace(), &[&arguments[..], &["--check"]].concat());
    assert_eq!((planned.code, planned.err.as_str()), (0, ""));
    for text in ["eth3: its stations are protected", "lana: LAN A", "MTU 1506 instead of 1500"] {
        assert!(planned.out.contains(text), "{}", planned.out);
    }
    let made = run_in(h1.namespace(), &arguments);
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{}", made.out);
    assert!(made.out.contains("sends for the stations behind eth3"), "{}", made.out);
    assert!(h1.link("prot9").unwrap_err().is_not_found(), "no interface is made");
    assert_eq!(h1.link("lana").unwrap().mtu, 1506);
    // Frames of the station reach both LANs; the peer lists it.
    let peer = run_in(network.h2.namespace(), &["protect", "lana", "lanb", "--name", "prot10"]);
    assert_eq!((peer.code, peer.err.as_str()), (0, ""), "{}", peer.out);
    station.add_address("eth9", IpAddr::from([203, 0, 113, 1]), 24).unwrap();
    network.h2.add_address("prot10", IpAddr::from([203, 0, 113, 2]), 24).unwrap();
    let socket = station.namespace().run(|| std::net::UdpSocket::bind("203.0.113.1:0"));
    let socket = socket.unwrap().unwrap();
    let receiver = network.h2.namespace().run(|| std::net::UdpSocket::bind("203.0.113.2:4100"));
    let receiver = receiver.unwrap().unwrap();
    receiver.set_read_timeout(Some(BOUND)).unwrap();
    let mut octets = [0; 8];
    for number in 0..10 {
        socket.send_to(&[number], "203.0.113.2:4100").unwrap();
        assert_eq!((receiver.recv(&mut octets).unwrap(), octets[0]), (1, number));
    }
    let listed = run_in(network.h2.namespace(), &["show", "prot10", "--nodes", "--json"]);
    let mac = station.link("eth9").unwrap().mac.unwrap().to_string();
    assert!(listed.out.contains(&mac), "{}", listed.out);
    for (handle, name) in [(h1, "prot9"), (&network.h2, "prot10")] {
        let undone = run_in(handle.namespace(), &["protect", "--undo", name]);
        assert_eq!((undone.code, undone.err.as_str()), (0, ""), "{}", undone.out);
        assert_gone(name);
    }
    // The kernel ends promiscuous mode once it has freed the sockets of the former process.
    wait_for("eth3 as before", || {
        let after = h1.link("eth3").unwrap();
        (after.mtu, after.promiscuity) == (before.mtu, before.promiscuity)
    });
    assert_eq!(h1.link("lana").unwrap().mtu, 1500);
}

/// A daemon that was killed, and a command that is repeated.
#[test]
fn the_command_names_the_state_of_its_node() {
    if !can_run() {
        return;
    }
    let network = network();
    let h1 = &network.h1;
    let _removal = Removal(h1, "prot17");
    let arguments = ["protect", "lana", "lanb", "--name", "prot17"];
    let made = run_in(h1.namespace(), &arguments);
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{}", made.out);
    let again = run_in(h1.namespace(), &[&arguments[..], &["--save"]].concat());
    assert_eq!((again.code, again.out.as_str()), (2, ""));
    assert!(again.err.contains("onbeat protect --undo prot17"), "{}", again.err);
    end_daemon(process_of("prot17"));
    let again = run_in(h1.namespace(), &arguments);
    assert_eq!((again.code, again.out.as_str()), (2, ""));
    for remedy in ["onbeat run /run/onbeat/prot17.toml", "onbeat protect --undo prot17"] {
        assert!(again.err.contains(remedy), "{}", again.err);
    }
    // Nor does another node take its interfaces.
    let planned =
        run_in(h1.namespace(), &["protect", "lana", "lanb", "--name", "prot18", "--check"]);
    assert_eq!((planned.code, planned.out.as_str()), (2, ""));
    for text in ["\"lana\" still has the settings of node \"prot17\"", "onbeat down prot17"] {
        assert!(planned.err.contains(text), "{}", planned.err);
    }
    // A removal that is not complete keeps the file, by which the next one knows the node.
    let elsewhere = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
    h1.move_to("lana", elsewhere.namespace()).unwrap();
    for _ in 0..2 {
        let undone = run_in(h1.namespace(), &["protect", "--undo", "prot17"]);
        assert_eq!((undone.code, undone.out.as_str()), (1, ""), "{}", undone.err);
        assert!(undone.err.contains("move it back"), "{}", undone.err);
    }
    elsewhere.move_to("lana", h1.namespace()).unwrap();
    let undone = run_in(h1.namespace(), &["protect", "--undo", "prot17"]);
    assert_eq!((undone.code, undone.err.as_str()), (0, ""), "{}", undone.out);
    assert_gone("prot17");
}

/// Two commands at once: one makes the node, and the other one changes nothing.
#[test]
fn of_two_commands_with_one_name_one_succeeds() {
    if !can_run() {
        return;
    }
    let Network { h1, .. } = &network();
    let _removal = Removal(h1, "prot19");
    let command = || run_in(h1.namespace(), &["protect", "lana", "lanb", "--name", "prot19"]);
    let both = std::thread::scope(|scope| {
        [(); 2].map(|()| scope.spawn(command)).map(|command| command.join().unwrap())
    });
    let mut codes = both.each_ref().map(|ran| ran.code);
    codes.sort_unstable();
    assert_eq!(codes, [0, 2], "{both:?}");
    let refused = both.iter().find(|ran| ran.code == 2).unwrap();
    let causes = ["is being created or removed by", "runs already", "is used by"];
    assert!(causes.iter().any(|cause| refused.err.contains(cause)), "{}", refused.err);
    assert_eq!(nodes("prot19").mac, h1.link("prot19").unwrap().mac.unwrap().to_string());
}

/// The cable of eth3 leads to LAN A.
#[test]
fn a_redbox_that_is_connected_to_a_lan_makes_no_storm() {
    if !can_run() {
        return;
    }
    let Network { h1, san, hub, .. } = &network();
    let _removal = Removal(h1, "prot16");
    h1.create_veth(&VethEnd::new("eth3"), &VethEnd::new("p4").namespace(hub.namespace())).unwrap();
    hub.set_master("p4", Some("br0")).unwrap();
    hub.set_up("p4").unwrap();
    h1.set_up("eth3").unwrap();
    let made =
        run_in(h1.namespace(), &["protect", "lana", "lanb", "--name", "prot16", "--for", "eth3"]);
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{}", made.out);
    let blocked = || nodes("prot16").host.counters.blocked;
    wait_for("its own supervision frame", || blocked() > 0);
    let before = hub.statistics("p4").unwrap();
    let socket = san.namespace().run(|| std::net::UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    socket.set_broadcast(true).unwrap();
    for _ in 0..20 {
        socket.send_to(&[0; 8], "192.0.2.255:4200").unwrap();
    }
    // Two further supervision frames: nothing has ended the condition, and a storm had seconds of time.
    let sent = || nodes("prot16").supervision_sent;
    let now = sent();
    wait_for("the next supervision frames", || sent() >= now + 2);
    let received = hub.statistics("p4").unwrap().rx_packets - before.rx_packets;
    // Hellos included, four a second.
    assert!(received < 200, "{received} frames came from eth3");
    wait_for("event", || {
        let events = run_in(h1.namespace(), &["show", "prot16", "--events"]);
        events.out.contains("is connected to a LAN")
    });
}

#[test]
fn only_the_node_of_this_namespace_is_removed_without_a_name() {
    if !can_run() {
        return;
    }
    let network = network();
    let _removal = Removal(&network.h1, "prot11");
    let made = run_in(network.h1.namespace(), &["protect", "lana", "lanb", "--name", "prot11"]);
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{}", made.out);
    let elsewhere = run_in(network.san.namespace(), &["protect", "--undo"]);
    assert_eq!((elsewhere.code, elsewhere.out.as_str()), (2, ""));
    assert!(elsewhere.err.contains("in this network namespace"), "{}", elsewhere.err);
    assert!(elsewhere.err.contains("prot11"), "{}", elsewhere.err);
    // A plan names the process that has the interfaces.
    let arguments = ["protect", "lana", "lanb", "--name", "prot12", "--check"];
    let planned = run_in(network.h1.namespace(), &arguments);
    assert_eq!((planned.code, planned.out.as_str()), (2, ""));
    for text in ["\"lana\" is used by process", "\"lanb\" is used by process", "prot11"] {
        assert!(planned.err.contains(text), "{}", planned.err);
    }
    // Those of another namespace are free.
    let planned = run_in(network.h2.namespace(), &arguments);
    assert_eq!((planned.code, planned.err.as_str()), (0, ""));
    // Without its daemon, too, although the other host has interfaces of these names.
    end_daemon(process_of("prot11"));
    let elsewhere = run_in(network.h2.namespace(), &["protect", "--undo"]);
    assert_eq!((elsewhere.code, elsewhere.out.as_str()), (2, ""));
    assert!(elsewhere.err.contains("in this network namespace"), "{}", elsewhere.err);
    let undone = run_in(network.h1.namespace(), &["protect", "--undo"]);
    assert_eq!((undone.code, undone.err.as_str()), (0, ""));
    assert_eq!(undone.out, "prot11 is removed\n");
    assert_gone("prot11");
}

#[test]
fn an_interrupted_command_leaves_nothing() {
    if !can_run() {
        return;
    }
    let h1 = &network().h1;
    let _removal = Removal(h1, "prot13");
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut command = onbeat();
        command.args(["protect", "lana", "lanb", "--name", "prot13", "--mtu", "1500"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        h1.namespace().start_in(&mut command);
        let mut waiting = Process::spawn(command);
        // It exists before the end of the silence after the start.
        wait_for("the interface exists", || h1.link("prot13").is_ok());
        waiting.signal(signal);
        let status = waiting.wait(BOUND).expect("it exits");
        let mut text = String::new();
        let errors = waiting.0.stderr.as_mut().expect("its errors");
        std::io::Read::read_to_string(errors, &mut text).unwrap();
        assert_eq!(status.code(), Some(2), "{text}");
        assert!(text.contains("interrupted; the node is removed"), "{text}");
        assert!(h1.link("prot13").unwrap_err().is_not_found());
        assert_eq!(LANS.map(|lan| h1.link(lan).unwrap().mtu), [1500, 1500]);
        assert_gone("prot13");
    }
}

/// A service manager that logs its commands, and runs the nodes that it enables.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >> /run/systemctl.log
name=${3#onbeat@}
name=${name%.service}
case $1 in
enable)
    if [ -e /run/refuse ]; then
        echo "Unit $3 not found" >&2
        exit 1
    fi
    PROGRAM run "/etc/onbeat/$name.toml" < /dev/null > /run/node.log 2>&1 &
    echo $! > /run/node.pid
    ;;
disable)
    [ -e /run/node.pid ] || exit 0
    kill -TERM "$(cat /run/node.pid)"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ -e "/run/onbeat/$name.sock" ] || break
        sleep 0.1
    done
    rm /run/node.pid
    ;;
esac
"#;

/// A node that the service manager started, killed at the end.
struct ServiceNode;

impl Drop for ServiceNode {
    fn drop(&mut self) {
        let pid = fs::read_to_string("/run/node.pid").ok().and_then(|pid| pid.trim().parse().ok());
        if let Some(pid) = pid {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

#[test]
fn a_saved_node_is_a_service_until_it_is_removed() {
    const MANAGER: &str = "/usr/bin/systemctl";
    if !can_run() || !require_that(Path::new(MANAGER).exists(), "systemctl") {
        return;
    }
    let h1 = &network().h1;
    let _mounts = PrivateMounts::enter().unwrap();
    for directory in ["/run", "/etc"] {
        let mounted =
            mount(Some("tmpfs"), directory, Some("tmpfs"), MsFlags::empty(), Some("mode=0755"));
        mounted.unwrap();
    }
    fs::create_dir_all("/run/systemd/system").unwrap();
    let manager = SYSTEMCTL.replace("PROGRAM", program().to_str().expect("a path in UTF-8"));
    make_executable(Path::new("/run/systemctl"), manager);
    mount(Some("/run/systemctl"), MANAGER, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
    let _node = ServiceNode;
    let log = || fs::read_to_string("/run/systemctl.log").unwrap_or_default();
    let save = ["protect", "lana", "lanb", "--name", "prot14", "--save"];
    let saved_file = Path::new("/etc/onbeat/prot14.toml");

    // A service that cannot be enabled leaves nothing.
    fs::write("/run/refuse", "").unwrap();
    let refused = run_in(h1.namespace(), &save);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("Unit onbeat@prot14.service not found"), "{}", refused.err);
    assert!(!saved_file.exists());
    fs::remove_file("/run/refuse").unwrap();
    fs::remove_file("/run/systemctl.log").unwrap();

    let saved = run_in(h1.namespace(), &save);
    assert_eq!((saved.code, saved.err.as_str()), (0, ""), "{}", saved.out);
    let text = "saved: /etc/onbeat/prot14.toml; its service is enabled";
    assert!(saved.out.contains(text), "{}", saved.out);
    assert_eq!(log(), "enable --now onbeat@prot14.service\n");
    let config = fs::read_to_string(saved_file).unwrap();
    assert!(config.starts_with("# Written by onbeat protect\n"), "{config}");
    let checked = run_in(h1.namespace(), &["run", "--check", "/etc/onbeat/prot14.toml"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(h1.link("prot14").is_ok());

    let undone = run_in(h1.namespace(), &["protect", "--undo"]);
    assert_eq!((undone.code, undone.err.as_str()), (0, ""), "{}", undone.out);
    assert_eq!(undone.out, "prot14 is removed\n");
    assert_eq!(log().lines().last(), Some("disable --now onbeat@prot14.service"));
    assert!(!saved_file.exists());
    assert!(h1.link("prot14").unwrap_err().is_not_found());
    assert_gone("prot14");

    // Files in a directory that other users can write to are not trusted.
    std::os::unix::fs::chown("/etc/onbeat", Some(1), Some(1)).unwrap();
    fs::write("/etc/onbeat/prot15.toml", "# Written by onbeat protect\n").unwrap();
    for arguments in [&["protect", "--undo"][..], &["protect", "--undo", "prot15"]] {
        let untrusted = run_in(h1.namespace(), arguments);
        assert_eq!((untrusted.code, untrusted.out.as_str()), (2, ""), "{arguments:?}");
        assert!(untrusted.err.contains("belongs to user 1"), "{}", untrusted.err);
    }
    assert!(Path::new("/etc/onbeat/prot15.toml").exists());
}

/// Two RedBoxes of the same LANs for one segment of stations, br3.
///
/// ```text
///   san eth9 ── br3 ──┬── eth3 h1 ── lana, lanb
///                     └── eth3 h2 ── lana, lanb
/// ```
#[test]
fn of_two_redboxes_one_serves_and_the_other_takes_over() {
    if !can_run() {
        return;
    }
    let Network { h1, h2, san, hub } = &network();
    let names = ["prot18", "prot19"];
    let _removals = [Removal(h1, names[0]), Removal(h2, names[1])];
    hub.create_bridge(&Bridge::new("br3").multicast_snooping(false)).unwrap();
    hub.set_up("br3").unwrap();
    for (port, handle, name) in [("p5", h1, "eth3"), ("p6", h2, "eth3"), ("p7", san, "eth9")] {
        let far = VethEnd::new(name).namespace(handle.namespace());
        hub.create_veth(&VethEnd::new(port), &far).unwrap();
        hub.set_master(port, Some("br3")).unwrap();
        hub.set_up(port).unwrap();
        handle.set_up(name).unwrap();
    }
    // Veths transmit frames of programs to ends that poll.
    for (handle, name) in [(hub, "p1"), (hub, "p5"), (h2, "lanb")] {
        let ethtool = Ethtool::in_namespace(handle.namespace()).unwrap();
        ethtool.set_features(name, &[("gro", true)]).unwrap();
    }
    san.add_address("eth9", IpAddr::from([203, 0, 113, 1]), 24).unwrap();
    let socket = san.namespace().run(|| std::net::UdpSocket::bind("203.0.113.1:0"));
    let socket = socket.unwrap().unwrap();
    socket.set_broadcast(true).unwrap();
    let from_redboxes =
        || ["p5", "p6"].map(|port| hub.statistics(port).unwrap().rx_packets).iter().sum::<u64>();
    // A broadcast of the station reaches LAN A once, and never returns.
    let check = |serves: &str| {
        let numbered = || nodes(serves).host.counters.numbered;
        let (before, returned) = (numbered(), from_redboxes());
        for _ in 0..20 {
            socket.send_to(&[0; 8], "203.0.113.255:4200").unwrap();
        }
        wait_for("its frames", || numbered() >= before + 20);
        // Two further supervision frames: a storm had seconds of time.
        let sent = || nodes(serves).supervision_sent;
        let now = sent();
        wait_for("the next supervision frames", || sent() >= now + 2);
        let returned = from_redboxes() - returned;
        assert!(returned < 150, "{returned} frames came from the RedBoxes");
    };
    for ((handle, name), backend) in [h1, h2].into_iter().zip(names).zip(["xdp", "packet"]) {
        let made = run_in(
            handle.namespace(),
            &["protect", "lana", "lanb", "--name", name, "--for", "eth3", "--backend", backend],
        );
        assert_eq!((made.code, made.err.as_str()), (0, ""), "{}", made.out);
    }
    let macs = names.map(|name| nodes(name).mac);
    // The one that serves already.
    let (active, standby) = (0, 1);
    let serves = |redbox: usize| nodes(names[redbox]).host.blocked_by.is_none();
    wait_for("the standby", || {
        nodes(names[standby]).host.blocked_by.as_ref() == Some(&macs[active])
    });
    wait_for("the other one", || serves(active));
    check(names[active]);
    // Unicast to a host of LAN A, by the tables of switches alone.
    let far = san.link("eth0").unwrap().mac.unwrap();
    assert!(ip(san, &format!("neigh replace 203.0.113.9 lladdr {far} dev eth9 nud permanent")));
    let on_lan = san.namespace().run(|| std::net::UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    on_lan.set_broadcast(true).unwrap();
    on_lan.send_to(&[0; 8], "192.0.2.255:4200").unwrap();
    let unicast_arrives = || {
        let before = hub.statistics("p3").unwrap().tx_packets;
        wait_for("unicast", || {
            (0..20).for_each(|_| _ = socket.send_to(&[0; 8], "203.0.113.9:4201").unwrap());
            hub.statistics("p3").unwrap().tx_packets >= before + 200
        });
    };
    unicast_arrives();
    let shown = run_in([h1, h2][standby].namespace(), &["show", names[standby], "--nodes"]);
    assert!(shown.out.contains(&format!("standby: RedBox {}", macs[active])), "{}", shown.out);
    // Its programs in the kernel forward without their process, until the standby takes over.
    end_daemon(process_of(names[active]));
    wait_for("the standby serves", || serves(standby));
    unicast_arrives();
    check(names[standby]);
    let events = run_in([h1, h2][standby].namespace(), &["show", names[standby], "--events"]);
    for text in ["this one is its standby", "serves the stations again"] {
        assert!(events.out.contains(text), "{}", events.out);
    }
}
