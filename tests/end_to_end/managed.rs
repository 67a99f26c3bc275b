//! What a controller of many nodes requires of one: the version of its file, no changes by others, members that drain,
//! probes of paths that carry no stream yet, and the number of the next packet.
//!
//! ```text
//!                        path1
//!                      /-------\
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener
//!                      \-------/
//!                        path2
//! ```

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_lab::World;
use onbeat_lab::world::CutEnds;
use onbeat_node::config::Backend;
use onbeat_node::control::{Client, FileVersion, Request, Response, StreamStatus};

use onbeat_testing::command;

use crate::common::{
    Capture, CommandOutput, Flow, FrameText, GROUP, Injector, PORTS, TemporaryFile, VLAN, build,
    can_run, eliminate, log, make_executable, one_node, program, replicate, run, show, start,
    stream, two_paths, wait_for,
};

const OTHER: &str = "01:00:5e:00:00:02";
const FILE: &str = "/run/onbeat/lab/a.toml";

fn sha256sum(path: &str) -> String {
    let printed = Command::new("sha256sum").arg(path).output().expect("sha256sum").stdout;
    String::from_utf8(printed).unwrap().split(' ').next().unwrap().to_owned()
}

/// The version of node "a", which `show` and `ping` return alike.
fn version(world: &mut World) -> FileVersion {
    let of_ping = world.daemon("a").unwrap().request(&Request::Ping).unwrap();
    let Response::Pong { configuration, .. } = of_ping else { panic!("{of_ping:?}") };
    let version = show("a").configuration;
    assert_eq!(configuration.as_ref(), Some(&version));
    version
}

fn set_mtu(world: &World, namespace: &str, interface: &str, mtu: u32) {
    let mut ip = Command::new("ip");
    ip.args(["link", "set", interface, "mtu", &mtu.to_string()]);
    assert!(world.namespace(namespace).unwrap().start_in(&mut ip).status().unwrap().success());
}

fn names() -> Vec<String> {
    show("a").streams.into_iter().map(|stream| stream.name).collect()
}

#[test]
fn a_node_reports_the_version_of_its_file() {
    if !can_run() {
        return;
    }
    let text = |node: &str| format!("{node}{PORTS}{}", replicate("axis", GROUP, VLAN));
    let mut world = start(&one_node(&text("")));
    let first = version(&mut world);
    assert_eq!((first.file.as_str(), first.sha256.as_str()), (FILE, &*sha256sum(FILE)));
    assert_eq!((&first.tag, &first.managed_by, first.streams_changed), (&None, &None, false));
    assert!(!run(&["show", "a"]).out.contains("sha256"));

    let guest = "/run/onbeat/lab/guest.part";
    fs::write(guest, replicate("guest", OTHER, VLAN)).unwrap();
    assert_eq!(run(&["stream", "add", guest, "--node", "a"]).code, 0);
    assert_eq!(version(&mut world), FileVersion { streams_changed: true, ..first.clone() });
    let shown = run(&["show", "a"]).out;
    let line = format!("file {FILE}  sha256 {}  streams changed since\n", first.sha256);
    assert!(shown.contains(&line), "{shown}");

    // A file that is refused is not the version of the node.
    fs::write(FILE, text("[node]\ntag = \"a b\"\n")).unwrap();
    let refused = run(&["reload", "a"]);
    assert!(
        refused.code == 2 && refused.err.contains("\"a b\" is not a valid name"),
        "{refused:?}"
    );
    assert_eq!(version(&mut world).sha256, first.sha256);
    fs::write(FILE, text("[node]\ntag = \"gen-8\"\n")).unwrap();
    assert_eq!(run(&["reload", "a"]).code, 0);
    let second = version(&mut world);
    assert_eq!((second.tag.as_deref(), &*second.sha256), (Some("gen-8"), &*sha256sum(FILE)));
    assert!(second.sha256 != first.sha256 && !second.streams_changed);
    let shown = run(&["show", "a"]).out;
    assert!(shown.contains(&format!("sha256 {}  tag gen-8\n", second.sha256)), "{shown}");
}

#[test]
fn a_managed_node_refuses_changes_without_force() {
    if !can_run() {
        return;
    }
    let text = format!(
        "[node]\nstored-streams = \"/run/onbeat/lab/stored/a.toml\"\nmanaged-by = \"fleet\"\n{PORTS}{}",
        replicate("axis", GROUP, VLAN)
    );
    let mut world = start(&one_node(&text));
    let part = |name: &str, destination: &str| {
        let path = format!("/run/onbeat/lab/{name}.part");
        fs::write(&path, replicate(name, destination, VLAN)).unwrap();
        path
    };
    let (guest, axis) = (part("guest", OTHER), part("axis", GROUP));
    let document = "/run/onbeat/lab/document.json";
    fs::write(document, run(&["yang", "get", "a", "--config"]).out).unwrap();
    let changes: [&[&str]; 7] = [
        &["yang", "set", "a", document],
        &["stream", "add", &guest, "--node", "a"],
        &["stream", "change", &axis, "--node", "a"],
        &["stream", "set-number", "axis", "7", "--node", "a"],
        &["reset", "axis", "--node", "a"],
        &["stream", "remove", "guest", "--node", "a"],
        &["reload", "a"],
    ];
    let before = show("a").streams;
    for change in changes {
        let refused = run(change);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{change:?}");
        let cause = "node \"a\" is managed by \"fleet\" (managed-by in its file)";
        assert!(refused.err.contains(cause) && refused.err.contains("--force"), "{refused:?}");
    }
    assert_eq!(show("a").streams, before);

    // The signal of `systemctl reload` has no --force.
    let pid = Pid::from_raw(world.daemon("a").unwrap().pid() as i32);
    let with_other = format!("{text}{}", replicate("other", OTHER, VLAN));
    fs::write(FILE, &with_other).unwrap();
    kill(pid, Signal::SIGHUP).unwrap();
    wait_for("the refusal in the log", || log("a").contains("SIGHUP is refused: node \"a\""));
    assert_eq!(names(), ["axis"]);

    fs::write(FILE, &text).unwrap();
    for change in changes {
        let done = run(&[change, &["--force"]].concat());
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{change:?}");
    }
    // Reading, and probes, change nothing. The longest probes require room for an R-TAG at the hosts.
    assert_eq!(run(&["show", "a", "--stream", "axis"]).code, 0);
    ["path1", "path2"].iter().for_each(|host| set_mtu(&world, host, "eth0", 1506));
    assert_eq!(run(&["stream", "prove", "axis", "--node", "a"]).code, 0);
    let free = text.replace("managed-by = \"fleet\"\n", "");
    fs::write(FILE, &free).unwrap();
    assert_eq!(run(&["reload", "a", "--force"]).code, 0);
    world.daemon("a").unwrap().reload(&with_other.replace("managed-by = \"fleet\"\n", "")).unwrap();
    assert_eq!(names(), ["axis", "other"]);
}

/// Frames per second: a host that emulates its CPUs keeps up with two such flows.
const RATE: u64 = 250;

fn drains_without_loss(backend: Option<Backend>) {
    let streams = |draining: bool| {
        let other = eliminate("other", OTHER, VLAN);
        let axis = eliminate("axis", GROUP, VLAN);
        let axis = if draining {
            axis.replace("vlan = 12 }", "vlan = 12 }, draining = true")
        } else {
            axis
        };
        format!("[node]\nevents = {{ interval-ms = 50 }}\n{PORTS}{axis}{other}")
    };
    let a = format!("{PORTS}{}{}", replicate("axis", GROUP, VLAN), replicate("other", OTHER, VLAN));
    let mut world = build(&two_paths(&a, &streams(false)));
    world.set_backend(backend);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let flow = |number, group| {
        Flow::start(&world, ("talker", "listener"), number, (group, VLAN), RATE, None)
    };
    let flows = [flow(1, GROUP), flow(2, OTHER)];
    flows.iter().for_each(|flow| flow.advance(RATE / 5));
    let file = "/run/onbeat/lab/b.toml";
    fs::write(file, streams(true)).unwrap();
    assert_eq!(run(&["reload", "b"]).code, 0);
    let members = || stream(&show("b"), "axis").members.clone();
    assert_eq!(members().iter().map(|member| member.draining).collect::<Vec<_>>(), [false, true]);
    let detail = run(&["show", "b", "--stream", "axis"]).out;
    assert!(
        detail.lines().any(|line| line.contains("path2") && line.ends_with("  draining")),
        "{detail}"
    );

    world.cut("path2", CutEnds::First).unwrap();
    let losses = |name: &str| {
        let events = run(&["show", "b", "--events", "--stream", name]).out;
        let is_loss = |line: &&str| line.contains("path2") && line.contains("path lost");
        events.lines().filter(is_loss).count()
    };
    wait_for("the loss of the other stream", || losses("other") > 0);
    // Both are polled in each interval, and have the same packets.
    flows[0].advance(RATE);
    assert_eq!(losses("axis"), 0);
    assert!(members().iter().all(|member| !member.lost));

    // The member is missing as soon as it does not drain.
    fs::write(file, streams(false)).unwrap();
    assert_eq!(run(&["reload", "b"]).code, 0);
    wait_for("the loss of the stream", || losses("axis") > 0);
    assert!(members()[1].lost && !members()[1].draining);
    let recovery = stream(&show("b"), "axis").recovery.clone().unwrap();
    assert_eq!(recovery.counters.resets, 1, "no change of the stream was one");
    // As a single stream, too.
    let part = "/run/onbeat/lab/axis.part";
    fs::write(
        part,
        streams(true).split("[[stream]]").nth(1).map(|s| format!("[[stream]]{s}")).unwrap(),
    )
    .unwrap();
    assert_eq!(run(&["stream", "change", part, "--node", "b"]).code, 0);
    assert!(members()[1].draining && !members()[1].lost);
    // Two CPUs that process the paths may exchange two frames.
    flows.into_iter().for_each(|flow| _ = flow.finish_complete());
}

#[test]
fn a_draining_member_is_not_lost() {
    if !can_run() {
        return;
    }
    drains_without_loss(None);
    drains_without_loss(Some(Backend::Packet));
}

/// The sequence number of a frame with a VLAN tag and an R-TAG.
fn number(frame: &[u8]) -> u16 {
    assert_eq!(frame[16..18], [0xf1, 0xc1], "{frame:02x?}");
    u16::from_be_bytes([frame[20], frame[21]])
}

fn numbers_are_set(backend: Option<Backend>) {
    let back = eliminate("back", OTHER, VLAN);
    let mut world = build(&one_node(&format!("{PORTS}{}{back}", replicate("axis", GROUP, VLAN))));
    world.set_backend(backend);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let mut path = Capture::open(&world, "path1", "eth0");
    let talker = Injector::open(&world, "host", "eth0");
    let frame = FrameText::new(GROUP, &[VLAN], None).octets();
    let mut sent = 0;
    let mut next = |count: usize| {
        (0..count).for_each(|_| talker.send(&frame));
        sent += count;
        let is_axis = |octets: &&Vec<u8>| octets[..6] == frame[..6];
        wait_for("the frames", || path.take().iter().filter(is_axis).count() == sent);
        path.frames.iter().filter(is_axis).skip(sent - count).map(|f| number(f)).collect::<Vec<_>>()
    };
    assert_eq!(next(2), [0, 1]);
    for (set, expected) in [("4711", [4711, 4712]), ("65535", [65535, 0]), ("0", [0, 1])] {
        let done = run(&["stream", "set-number", "axis", set, "--node", "a"]);
        let out = format!("stream \"axis\": the next packet has number {set}\n");
        assert_eq!((done.code, done.out, done.err.as_str()), (0, out, ""));
        let generation = stream(&show("a"), "axis").generation.clone().unwrap();
        assert_eq!(
            (generation.gen_seq_num.to_string().as_str(), generation.seq_gen_resets),
            (set, 1)
        );
        assert_eq!(next(2), expected);
    }
    let events = run(&["show", "a", "--events", "--stream", "axis"]).out;
    let event = "stream \"axis\": sequence generation: the next packet has number 4711, on request";
    assert!(events.contains(event), "{events}");
    for (name, cause) in [("back", "numbers no packets"), ("x", "no stream \"x\"")] {
        let refused = run(&["stream", "set-number", name, "1", "--node", "a"]);
        assert!(refused.code == 2 && refused.err.contains(cause), "{refused:?}");
    }
}

#[test]
fn the_number_of_the_next_packet_is_set() {
    if !can_run() {
        return;
    }
    numbers_are_set(None);
    numbers_are_set(Some(Backend::Packet));
}

fn paths_are_proved(backend: Option<Backend>) {
    let a = format!("{PORTS}{}", replicate("axis", GROUP, VLAN));
    let b = format!("{PORTS}{}", eliminate("axis", GROUP, VLAN));
    let mut world = build(&two_paths(&a, &b));
    world.set_backend(backend);
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let mut listener = Capture::open(&world, "listener", "eth0");
    let counted = |expected: &[u64], tagless: u64| {
        let axis = || -> StreamStatus {
            let out = run(&["show", "b", "--stream", "axis", "--json"]).out;
            serde_json::from_str(&out).expect("a stream")
        };
        let input = |axis: &StreamStatus| -> Vec<u64> {
            axis.members.iter().map(|member| member.input_packets).collect()
        };
        wait_for(&format!("{expected:?} probes"), || input(&axis()) == expected);
        let recovery = axis().recovery.unwrap();
        assert_eq!((recovery.counters.tagless, recovery.counters.passed), (tagless, 0));
        assert!(recovery.take_any, "the history has no packet");
    };
    let sent = run(&["stream", "prove", "axis", "--node", "a"]);
    let line = |port: &str| {
        format!("stream \"axis\": port {port:?}: sent 3 of 60 octets, 9 of 1524 octets\n")
    };
    assert_eq!((sent.code, sent.out), (0, line("path1") + &line("path2")));
    counted(&[12, 12], 24);

    // New paths, which the stream does not use yet.
    let part = "/run/onbeat/lab/axis.part";
    let relabeled =
        |text: String| text.replace("vlan = 11", "vlan = 21").replace("vlan = 12", "vlan = 22");
    let (old, new) = (eliminate("axis", GROUP, VLAN), relabeled(eliminate("axis", GROUP, VLAN)));
    let members = |text: &str| {
        text.lines()
            .filter(|line| line.contains("identify"))
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let both = old.replace(&members(&old), &(members(&old) + &members(&new)));
    fs::write(part, &both).unwrap();
    assert_eq!(run(&["stream", "change", part, "--node", "b"]).code, 0);
    fs::write(part, relabeled(replicate("axis", GROUP, VLAN))).unwrap();
    assert_eq!(run(&["stream", "prove", "--file", part, "--node", "a"]).code, 0);
    counted(&[12, 12, 12, 12], 48);

    // A path whose MTU lacks the octets of the R-TAG carries the short ones only, which is no success.
    set_mtu(&world, "b", "path2", 1500);
    let dropped = run(&["stream", "prove", "axis", "--node", "a", "--file", part]);
    assert_eq!((dropped.code, dropped.out.as_str()), (2, ""));
    let cause = "stream \"axis\": port \"path2\" (path2) dropped 9 of 9 probes of 1524 octets: set the MTU at the other \
                 end of its link to at least 1506";
    assert!(dropped.err.contains(cause) && !dropped.err.contains("path1"), "{dropped:?}");
    counted(&[12, 12, 24, 15], 63);

    for (name, node, cause) in [
        ("axis", "b", "stream \"axis\" cannot be proved: all its egress ports have tag = \"none\""),
        ("x", "a", "no stream \"x\""),
    ] {
        let refused = run(&["stream", "prove", name, "--node", node]);
        assert!(refused.code == 2 && refused.err.contains(cause), "{refused:?}");
    }
    // The first packet of the stream passes, and no probe did before.
    let frame = FrameText::new(GROUP, &[VLAN], None).octets();
    Injector::open(&world, "talker", "eth0").send(&frame);
    let is_axis = |octets: &&Vec<u8>| octets[..6] == frame[..6];
    wait_for("the packet", || listener.take().iter().any(|octets| is_axis(&octets)));
    let delivered: Vec<_> = listener.frames.iter().filter(is_axis).collect();
    assert_eq!(delivered, [&frame]);
}

#[test]
fn probes_are_counted_at_the_end_of_a_path_and_not_delivered() {
    if !can_run() {
        return;
    }
    paths_are_proved(None);
    paths_are_proved(Some(Backend::Packet));
}

/// An unprivileged manager, and another user.
const MANAGER: u32 = 65534;
const OTHER_USER: u32 = 65533;

#[test]
fn managers_replace_streams_and_nothing_else() {
    const MANAGED: &str = "/run/onbeat/lab/managed/a.toml";
    const SOCKET: &str = "/run/onbeat-managers/a.sock";
    if !can_run() {
        return;
    }
    let head = format!(
        "[node]\nmanaged-by = \"fleet\"\nmanagers = \"nogroup\"\nmanaged-file = \"{MANAGED}\"\n{PORTS}"
    );
    let of_file = format!("{head}{}", replicate("axis", GROUP, VLAN));
    let mut world = start(&one_node(&of_file));
    let replace = |text: &str| {
        let mut manager = Client::to_managed("a").unwrap();
        manager.order(&Request::ReplaceFile { text: text.to_owned() })
    };
    // As planned: the keys of the administrator are not in it.
    let planned = format!(
        "[node]\nname = \"a\"\ntag = \"gen-2\"\n{PORTS}{}",
        replicate("other", OTHER, VLAN)
    );
    assert!(replace(&planned).unwrap().starts_with("1 stream on "));
    assert_eq!(names(), ["other"]);
    let version = version(&mut world);
    assert_eq!((version.file.as_str(), &version.sha256), (MANAGED, &sha256sum(MANAGED)));
    assert_eq!(
        (version.tag.as_deref(), version.managed_by.as_deref()),
        (Some("gen-2"), Some("fleet"))
    );
    assert_eq!(
        (fs::read_to_string(FILE).unwrap(), version.streams_changed),
        (of_file.clone(), false)
    );

    // Whatever else a text requires is refused, and nothing has changed.
    for (from, to, key) in [
        ("name = \"a\"", "name = \"a\"\nstored-streams = \"/etc/cron.d/x\"", "node.stored-streams"),
        ("name = \"a\"", "name = \"a\"\nmanaged-file = \"/etc/cron.d/x\"", "node.managed-file"),
        ("name = \"a\"", "name = \"a\"\nmax-streams = 8192", "node.max-streams"),
        ("[[port]]", "[guard]\ninterfaces = [\"path1\"]\n[[port]]", "node.guard"),
        ("interface = \"path1\"", "interface = \"lo\"", "port \"path1\": interface"),
        ("mtu = 1506", "mtu = 9000", "mtu"),
    ] {
        assert!(planned.contains(from), "{from}: {planned}");
        let refused = replace(&planned.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(
            refused.contains(key) && refused.contains("is not that of the node's file"),
            "{refused}"
        );
    }
    let long = format!("{planned}#{}", "x".repeat(5 << 20));
    let refused = replace(&long).unwrap_err().to_string();
    assert!(refused.contains("longer than 4259840"), "{refused}");
    let faulty = replace(&planned.replace("\"other\"", "\"a b\"")).unwrap_err().to_string();
    assert!(faulty.contains("\"a b\" is not a valid name"), "{faulty}");
    let mut manager = Client::to_managed("a").unwrap();
    for request in [Request::Reload { force: true }, Request::Stop, Request::Configuration] {
        let refused = manager.request(&request).unwrap_err().to_string();
        assert!(
            refused.contains("accepts ping, show, streams, prove and replace_file only"),
            "{refused}"
        );
    }
    assert_eq!((names(), sha256sum(MANAGED)), (vec!["other".to_owned()], version.sha256.clone()));

    // Members of the group only.
    let copy = TemporaryFile::new("onbeat-of-managers");
    make_executable(copy.path(), fs::read(program()).expect("the program"));
    for (user, code) in [(MANAGER, 0), (OTHER_USER, 2)] {
        let mut show = command(copy.path());
        show.args(["show", SOCKET]).current_dir("/").uid(user).gid(user);
        let shown: CommandOutput = show.output().expect("it starts").into();
        assert_eq!(shown.code, code, "{shown:?}");
        assert!(code == 0 || shown.err.contains("permission denied"), "{shown:?}");
    }

    // Commands of the administrator are refused without --force. Streams are those of managers also after a start.
    assert_eq!(run(&["reload", "a"]).code, 2);
    assert_eq!(run(&["reload", "a", "--force"]).code, 0);
    assert_eq!(names(), ["other"]);
    world.daemon("a").unwrap().kill().unwrap();
    world.start("a", program()).unwrap();
    assert_eq!((names(), show("a").configuration), (vec!["other".to_owned()], version));

    // A file that the administrator is editing takes effect on his command only.
    fs::write(FILE, format!("{of_file}# edited\n")).unwrap();
    let refused = replace(&planned).unwrap_err().to_string();
    assert!(refused.contains("has changed since node \"a\" read it"), "{refused}");
    assert_eq!(run(&["reload", "a", "--force"]).code, 0);
    replace(&planned).unwrap();

    // A node that is not managed any more has its own streams.
    fs::write(FILE, format!("[node]\n{PORTS}{}", replicate("axis", GROUP, VLAN))).unwrap();
    assert_eq!(run(&["reload", "a", "--force"]).code, 0);
    let refused = replace(&planned).unwrap_err().to_string();
    assert!(refused.contains("node \"a\" is not managed"), "{refused}");
    assert_eq!(names(), ["axis"]);
    drop(world);
    assert!(!fs::exists(SOCKET).unwrap());
}
