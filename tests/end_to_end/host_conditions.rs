//! Actions of other processes: programs detached from a node's ports, peers that leave checksums
//! incomplete, other mount namespaces.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2
//! ```

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{
    BOUND, Capture, FrameText, GROUP, Injector, PORTS, ResidentProcess, VLAN, build, can_run, log,
    one_node, port, program, replicate, run, run_in, show, start, wait_for,
};
use onbeat_lab::World;
use onbeat_netdev::Ethtool;
use onbeat_node::control::{Event, EventDetail, PortMode};
use onbeat_testing::require_that;
use onbeat_wire::MacAddress;

/// Events of node "a" after number `since`.
fn events(since: u64) -> Vec<Event> {
    let ran = run(&["show", "a", "--events", "--json", "--since", &since.to_string()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

/// Waits for an event after number `since`; returns it.
#[track_caller]
fn wait_event(since: u64, what: &str, is: impl Fn(&EventDetail) -> bool) -> Event {
    let mut found = None;
    wait_for(what, || {
        found = events(since).into_iter().find(|event| is(&event.detail));
        found.is_some()
    });
    found.expect("it was waited for")
}

fn last_event() -> u64 {
    events(0).last().map_or(0, |event| event.number)
}

/// Output of bpftool in the node's namespace.
fn bpftool(world: &World, arguments: &[&str]) -> String {
    let mut command = Command::new("bpftool");
    command.args(arguments);
    let ran = world.namespace("a").unwrap().start_in(&mut command).output().unwrap();
    assert!(ran.status.success(), "bpftool {arguments:?}: {ran:?}");
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn detach(world: &World) {
    bpftool(world, &["link", "detach", "pinned", "/sys/fs/bpf/onbeat/a/links/0-host"]);
}

#[test]
fn a_program_that_another_process_detaches_is_attached_again() {
    let tool = Command::new("bpftool").arg("version").output().is_ok();
    if !can_run() || !require_that(tool, "bpftool") {
        return;
    }
    let config = format!("{PORTS}{}", replicate("axis", GROUP, VLAN));
    let world = start(&one_node(&config));
    let is_attached = || bpftool(&world, &["net", "show", "dev", "host"]).contains(" driver id ");
    assert!(is_attached(), "{}", bpftool(&world, &["net", "show"]));
    let mut replica = Capture::open(&world, "path1", "eth0");
    let sender = Injector::open(&world, "host", "eth0");
    let mut number = 0;
    let mut pass = || {
        sender.send(&FrameText::new(GROUP, &[VLAN], None).octets());
        let expected = FrameText::new(GROUP, &[11], Some(number)).octets();
        assert_eq!(replica.wait(usize::from(number) + 1, "a replica").last(), Some(&expected));
        number += 1;
    };
    pass();

    for retry in [0, 1] {
        let since = last_event();
        detach(&world);
        let detached = |what: &EventDetail| {
            *what
                == EventDetail::ProgramDetached {
                    interface: "host".into(),
                    why: None,
                    retry_s: retry,
                }
        };
        let event = wait_event(since, "the detached program", detached);
        assert_eq!(event.port.as_deref(), Some("host"));
        let back = EventDetail::ProgramAttached { interface: "host".into() };
        wait_event(since, "the program attached again", |what| *what == back);
        assert!(is_attached());
        assert_eq!(port(&show("a"), "host").mode, PortMode::Native);
        // Sequence numbers continue: the tables remained.
        pass();
    }

    // The next automatic attempt is 2 s away; a reload retries at once.
    let since = last_event();
    detach(&world);
    wait_event(since, "the detached program", |what| {
        matches!(what, EventDetail::ProgramDetached { .. })
    });
    let reloaded = run(&["reload", "a"]);
    assert_eq!(reloaded.code, 0, "{reloaded:?}");
    assert!(is_attached());
    pass();
    wait_event(since, "the event of it", |what| {
        matches!(what, EventDetail::ProgramAttached { .. })
    });
    let log = log("a");
    assert!(log.contains("XDP program was detached from host by another process"), "{log}");
}

const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

fn mac(world: &World, host: &str) -> MacAddress {
    world.handle(host).unwrap().link("eth0").unwrap().mac.unwrap()
}

/// Assigns addresses to two hosts, with static neighbor entries.
fn address_hosts(world: &World) {
    for (host, own, other, there) in
        [("host", CLIENT, SERVER, "path1"), ("path1", SERVER, CLIENT, "host")]
    {
        world.handle(host).unwrap().add_address("eth0", own.into(), 24).unwrap();
        let mut command = Command::new("ip");
        let mac = mac(world, there).to_string();
        command.args(["neigh", "add", &other.to_string(), "lladdr", &mac, "dev", "eth0"]);
        assert!(world.namespace(host).unwrap().start_in(&mut command).status().unwrap().success());
    }
}

/// Exchanges some octets over TCP.
fn talk(world: &World, listener: &TcpListener, patience: Duration) -> std::io::Result<()> {
    let address: SocketAddr = listener.local_addr()?;
    let client = world.namespace("host").unwrap();
    let mut stream = client.run(|| TcpStream::connect_timeout(&address, patience)).unwrap()?;
    stream.set_read_timeout(Some(BOUND))?;
    stream.write_all(&[7; 5000])?;
    let (mut served, _) = listener.accept()?;
    served.set_read_timeout(Some(BOUND))?;
    let mut octets = [0; 5000];
    served.read_exact(&mut octets)?;
    served.write_all(&octets)?;
    stream.read_exact(&mut octets)?;
    assert_eq!(octets, [7; 5000]);
    Ok(())
}

#[test]
fn tcp_passes_after_the_reported_command() {
    let tools = ["ip", "ethtool", "nsenter"];
    let tools = tools.iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
    if !can_run() || !require_that(tools, "ip, ethtool and nsenter") {
        return;
    }
    let mut world = build(&one_node(PORTS));
    let forward = |name: &str, from: &str, to: &str, there: &str| {
        let destination = mac(&world, there);
        format!(
            "[[stream]]\nname = \"{name}\"\n\
             member = [{{ port = \"{from}\", identify = {{ type = \"null\", destination = \
             \"{destination}\" }} }}]\negress = [{{ port = \"{to}\", tag = \"none\" }}]\n"
        )
    };
    let streams =
        [forward("there", "host", "path1", "path1"), forward("back", "path1", "host", "host")];
    let config = format!("{PORTS}{}", streams.concat());
    world.set_config("a", config).unwrap();
    // The kernel's default, which the lab changes.
    for host in ["host", "path1"] {
        let ethtool = Ethtool::in_namespace(world.namespace(host).unwrap()).unwrap();
        ethtool.set_features("eth0", &[("tx-checksum-ip-generic", true)]).unwrap();
    }
    let residents = ["host", "path1"].map(|host| ResidentProcess::start(&world, host));
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    address_hosts(&world);
    let listener = world.namespace("path1").unwrap().run(|| TcpListener::bind((SERVER, 4321)));
    let listener = listener.unwrap().unwrap();
    let error = talk(&world, &listener, Duration::from_secs(1)).expect_err("unfinished checksums");
    assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");

    for ((interface, resident), host) in
        ["host", "path1"].iter().zip(&residents).zip(["host", "path1"])
    {
        let event = wait_event(
            0,
            "unfinished checksums",
            |what| matches!(what, EventDetail::UnfinishedChecksums { why: Some(why) } if why.contains(&format!("end of {interface} "))),
        );
        let EventDetail::UnfinishedChecksums { why: Some(why) } = event.detail else {
            unreachable!()
        };
        assert_eq!(event.port.as_deref(), Some(host));
        assert_eq!(port(&show("a"), host).unfinished_checksums.as_deref(), Some(why.as_str()));
        let shown = run(&["show", "a"]);
        assert!(shown.out.contains(&format!("port {host}: {why}")), "{shown:?}");
        let (_, command) = why.split_once("run: ").expect("a command");
        let expected =
            format!("nsenter --net=/proc/{}/ns/net ethtool -K eth0 tx off", resident.id());
        assert_eq!(command, expected);
        let namespace = world.namespace("a").unwrap();
        let doctor = run_in(namespace, &["doctor", interface, "--json"]);
        assert!(
            doctor.out.contains("peer-checksums") && doctor.out.contains(command),
            "{doctor:?}"
        );

        let ran = Command::new("sh").args(["-c", command]).output().unwrap();
        assert!(ran.status.success(), "{command}: {ran:?}");
    }
    wait_for("no report any more", || {
        show("a").ports.iter().all(|port| port.unfinished_checksums.is_none())
    });
    talk(&world, &listener, BOUND).expect("TCP passes");
    let finished = |event: &&Event| event.detail == EventDetail::UnfinishedChecksums { why: None };
    assert_eq!(events(0).iter().filter(finished).count(), 2);
}

/// Runs a shell script as process 1 of a PID namespace, with mounts of its own, in a's namespace.
/// `$ONBEAT`, `$FILE` and the function `run_apart`, which runs the node as `ip netns exec` does: with
/// a sysfs of its own, on which nothing is mounted.
///
/// Returns the world with the node's log; `None` where this machine cannot run it.
fn as_init(script: &str) -> Option<(World, String)> {
    if !can_run() {
        return None;
    }
    let world = build(&one_node(PORTS));
    let prelude = r#"
set -eu
cat > /run/apart.sh <<'APART'
mount --make-rprivate /
umount -l /sys
mount -t sysfs sysfs /sys
exec "$ONBEAT" run "$FILE"
APART
run_apart() {
    unshare -m sh -e /run/apart.sh 2> /run/apart.log &
    node=$!
    until "$ONBEAT" show a > /dev/null 2>&1; do
        kill -0 $node || { cat /run/apart.log; exit 1; }
        sleep 0.05
    done
}
"#;
    std::fs::write("/run/apart.toml", format!("[node]\nname = \"a\"\n{PORTS}")).unwrap();
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "--pid", "--fork", "--mount", "--mount-proc", "sh", "-c"]);
    command.arg(format!("{prelude}{script}")).stdin(Stdio::null());
    command.env("ONBEAT", program()).env("FILE", "/run/apart.toml");
    let ran = world.namespace("a").unwrap().start_in(&mut command).output().unwrap();
    let log = std::fs::read_to_string("/run/apart.log").unwrap_or_default();
    assert!(ran.status.success(), "{ran:?}\n{log}");
    Some((world, log))
}

#[test]
fn without_a_bpf_file_system_a_node_pins_in_that_of_process_1() {
    let Some((_world, log)) = as_init(
        r#"
run_apart
test -e /sys/fs/bpf/onbeat/a/links/0-host
kill -TERM $node; wait $node
test -e /sys/fs/bpf/onbeat/a/links/0-host
"$ONBEAT" down a
test ! -e /sys/fs/bpf/onbeat/a
"#,
    ) else {
        return;
    };
    assert!(log.contains("pinning in that of process 1"), "{log}");
    assert!(log.contains("the data plane keeps running; onbeat down a removes it"), "{log}");
    assert!(!log.contains("this mount namespace only"), "{log}");
}

#[test]
fn a_data_plane_bound_to_the_mount_namespace_is_reported() {
    let Some((world, log)) = as_init(
        r#"
while umount /sys/fs/bpf 2> /dev/null; do :; done
run_apart
kill -TERM $node; wait $node
"#,
    ) else {
        return;
    };
    assert!(log.contains("in a BPF file system of this mount namespace only"), "{log}");
    assert!(log.contains("the data plane stops now"), "{log}");
    assert!(!log.contains("keeps running"), "{log}");
    let host = world.handle("a").unwrap();
    wait_for("no program is left", || host.link("host").unwrap().xdp.is_empty());
}
