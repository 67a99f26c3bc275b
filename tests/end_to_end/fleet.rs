//! Plans are rolled out over etcd to nodes while frames flow: no frame is lost or doubled. The control, the same change in one
//! step, loses frames.
//!
//! ```text
//!                 +--- r1 ---+
//!  talker --- [ a ] -- r2 -- [ b ] --- listener        plan 1: r1, r2; plan 2: r2, r3
//!                 +--- r3 ---+
//! ```

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use onbeat_lab::Topology;
use onbeat_node::control::{Client, DIRECTORY, Request};
use onbeat_testing::etcd::{etcd, require_etcd, with_certificates};
use onbeat_testing::{TemporaryDirectory, command};

use crate::common::{Flow, TemporaryFile, build, can_run, make_executable, program, run, wait_for};

const GROUP: &str = "01:00:5e:00:00:01";
const VLAN: u16 = 100;
const RATE: u64 = 2000;
/// A number read is not yet far behind when it is used.
const SLOW: u64 = 100;
const NODES: [&str; 5] = ["a", "b", "r1", "r2", "r3"];
const RELAYS: [&str; 3] = ["r1", "r2", "r3"];

/// The network; paths do not pass through relay `without`.
fn network(without: &str) -> String {
    let mut text = String::from("[network]\nlabel-vlans = [101, 102]\n");
    for node in ["a", "b"] {
        let ports = RELAYS.map(|relay| format!("{{ name = \"{node}-{relay}\" }}")).join(", ");
        text += &format!(
            "[[node]]\nname = \"{node}\"\nhost = {{ interface = \"{node}-host\" }}\nport = [{ports}]\n"
        );
    }
    for relay in RELAYS {
        let passes = relay != without;
        text += &format!(
            "[[node]]\nname = \"{relay}\"\nrelay = {passes}\nport = [{{ name = \"{relay}-a\" }}, {{ name = \"{relay}-b\" }}]\n"
        );
        for end in ["a", "b"] {
            text +=
                &format!("[[link]]\na = \"{end}:{end}-{relay}\"\nb = \"{relay}:{relay}-{end}\"\n");
        }
    }
    // One stream has traffic.
    for (name, address) in [("axis", GROUP), ("silent", "01:00:5e:00:00:02")] {
        text += &format!(
            "[[stream]]\nname = \"{name}\"\ntalker = \"a\"\nlisteners = [\"b\"]\naddress = \"{address}\"\nvlan = {VLAN}\n\
             interval-us = 500\nsize = 304\n"
        );
    }
    text
}

/// Children that end with this value.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn fleet_program() -> Command {
    command(&program().with_file_name("onbeat-fleet"))
}

/// Runs a command of the fleet; returns its exit status and output.
fn fleet(arguments: &[&str]) -> (i32, String) {
    let output =
        fleet_program().arg("fleet").args(arguments).output().expect("onbeat-fleet starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap_or(-1), text.into_owned())
}

#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let (code, text) = fleet(arguments);
    assert_eq!(code, 0, "{arguments:?}: {text}");
    text
}

/// Nodes with the ports of these plans; a plan has files of the nodes with streams only.
fn topology(plans: [&Path; 2]) -> Topology {
    let mut topology = Topology::default();
    for (node, place) in NODES.into_iter().zip(1..) {
        let read = |plan: &Path| fs::read_to_string(plan.join(format!("{node}.toml"))).ok();
        let text = plans.into_iter().find_map(read).expect("a file");
        // Without streams: the first roll-out brings them.
        let head = text.split("[[stream]]").next().unwrap_or_default();
        let managed = format!(
            "[node]\nmanaged-by = \"fleet\"\nmanagers = \"nogroup\"\nmanaged-file = \"{}\"\n",
            managed_file(node)
        );
        topology.node(node, place, 1, head.replacen("[node]\n", &managed, 1));
    }
    topology.host("talker", 0, 0).host("listener", 9, 0);
    topology.link("access", "talker:eth0", "a:a-host").link("exit", "b:b-host", "listener:eth0");
    for relay in RELAYS {
        for end in ["a", "b"] {
            let name = format!("{end}-{relay}");
            topology.link(&name, &format!("{end}:{name}"), &format!("{relay}:{relay}-{end}"));
        }
    }
    topology
}

fn managed_file(node: &str) -> String {
    format!("/run/onbeat/lab/managed/{node}.toml")
}

/// Agents run as this user and group, which own nothing but their credentials.
const AGENT: u32 = 65534;

/// Starts the agent of a node without privileges; its log is `DIRECTORY/log-NODE`.
fn start_agent(program: &Path, directory: &TemporaryDirectory, node: &str) -> Child {
    let at = |name: &str| directory.file(format!("{name}-{node}"));
    let (credentials, state) = (at("of"), at("state"));
    fs::create_dir(&state).unwrap();
    let own = |path: &Path| chown(path, Some(AGENT), Some(AGENT)).unwrap();
    [&credentials, &state].iter().for_each(|path| own(path));
    fs::read_dir(&credentials).unwrap().for_each(|entry| own(&entry.unwrap().path()));
    let mut agent = command(program);
    agent.args(["fleet", "agent"]).arg(credentials).arg("--state").arg(state);
    agent.current_dir("/").uid(AGENT).gid(AGENT);
    agent.stdout(Stdio::null()).stderr(fs::File::create(at("log")).unwrap());
    agent.spawn().expect("an agent starts")
}

fn start_etcd(data: &Path, [url, peer]: [&str; 2], certificates: &Path) -> Child {
    let mut etcd = etcd("m0", data, [url, peer], &format!("m0={peer}"));
    with_certificates(&mut etcd, certificates);
    etcd.spawn().expect("etcd starts")
}

/// Runs etcdctl as the user `root`.
fn etcdctl(url: &str, keys: &str, arguments: &[&str]) {
    let mut program = Command::new("etcdctl");
    program.env("ETCDCTL_API", "3").args(["--endpoints", url]);
    for (option, file) in [("--cacert", "ca.pem"), ("--cert", "user.pem"), ("--key", "user.key")] {
        program.arg(option).arg(Path::new(keys).join(file));
    }
    let output = program.args(arguments).output().expect("etcdctl (apt-get install etcd-client)");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Admits a node by a token, once.
fn join(node: &str, credentials: &str, keys: &str) {
    let mut invite = fleet_program();
    invite.args(["fleet", "invite", node, "--listen", "127.0.0.1:0", "--fleet", keys]);
    let mut invite = Children(vec![invite.stdout(Stdio::piped()).spawn().expect("it starts")]);
    let lines = BufReader::new(invite.0[0].stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    let line = lines.find(|line| line.contains("onbeat fleet join")).expect("a command");
    let [_, _, _, address, _, _, _, token] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{line}")
    };
    // The secret of another token, and then that of another authority.
    for (at, why) in [(token.len() - 1, "the token is wrong"), (10, "UnknownIssuer")] {
        let other = if &token[at..=at] == "0" { "1" } else { "0" };
        let wrong = format!("{}{other}{}", &token[..at], &token[at + 1..]);
        let (code, text) = fleet(&["join", address, "--token", &wrong, "-o", credentials]);
        assert!(code == 2 && text.contains(why), "{text}");
        assert!(!Path::new(credentials).exists());
    }
    succeed(&["join", address, "--token", token, "-o", credentials]);
    assert!(invite.0[0].wait().unwrap().success());
    assert!(lines.any(|line| line.contains("has joined")));
    let (code, text) =
        fleet(&["join", address, "--token", token, "-o", &format!("{credentials}-2")]);
    assert!(code == 2 && text.contains("invite NODE --listen"), "{text}");
}

#[test]
fn a_plan_is_rolled_out_and_back_without_a_frame_lost() {
    if !can_run() {
        return;
    }
    let has_fleet = program().with_file_name("onbeat-fleet").is_file();
    assert!(has_fleet, "onbeat-fleet is missing; build it: cargo build -p onbeat-fleet");
    if !require_etcd() {
        return;
    }
    let directory = TemporaryDirectory::new("fleet");
    // Agents are other users.
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = TemporaryFile::new("onbeat-fleet");
    make_executable(copy.path(), fs::read(program().with_file_name("onbeat-fleet")).unwrap());
    let at = |name: &str| directory.file(name).display().to_string();
    for (number, without) in [(1, "r3"), (2, "r1")] {
        let (net, plan) = (at(&format!("net-{number}.toml")), at(&format!("plan-{number}")));
        fs::write(&net, network(without)).unwrap();
        let keep = at("plan-1/manifest.json");
        let mut arguments = vec!["plan", &net, "-o", &plan];
        if number == 2 {
            arguments.extend(["--keep", &keep]);
        }
        let planned = run(&arguments);
        assert_eq!(planned.code, 0, "{planned:?}");
    }
    let mut world = build(&topology([&directory.file("plan-1"), &directory.file("plan-2")]));
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));

    // Keys, then etcd with the certificates, then users and the first record.
    let bound = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = bound.map(|listener| listener.local_addr().unwrap().port());
    let (url, keys) = (format!("https://127.0.0.1:{}", ports[0]), at("keys"));
    let init = ["init", "--etcd", &url, "--fleet", &keys];
    let (code, text) = fleet(&init);
    assert!(code == 1 && text.contains("start etcd with them"), "{text}");
    let servers = directory.file("keys/servers/127.0.0.1");
    let peer = format!("http://127.0.0.1:{}", ports[1]);
    let etcd = start_etcd(&directory.file("etcd"), [&url, &peer], &servers);
    let mut children = Children(vec![etcd]);
    wait_for("the store is set up", || fleet(&init).0 == 0);
    assert_eq!(fleet(&init).0, 0, "again");
    for node in NODES {
        let credentials = at(&format!("of-{node}"));
        match node {
            "r3" => join(node, &credentials, &keys),
            _ => drop(succeed(&["invite", node, "-o", &credentials, "--fleet", &keys])),
        }
        children.0.push(start_agent(copy.path(), &directory, node));
    }
    let options = ["--soak", "1", "--fleet", &keys];
    let apply = |plan: &str| [&["apply", plan][..], &options].concat().join(" ");
    let applied = |plan: &str| {
        let line = apply(plan);
        succeed(&line.split(' ').collect::<Vec<_>>())
    };
    let (first, second) = (at("plan-1"), at("plan-2"));
    assert!(applied(&first).contains("all nodes run the new plan"));
    assert!(applied(&first).contains("nothing to change"));
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None);
    flow.advance(RATE / 2);

    let text = applied(&second);
    for phase in ["accept of plan 1 to 2", "prove of plan 1 to 2", "send of plan 1 to 2", "drain"] {
        assert!(text.contains(phase), "{phase}: {text}");
    }
    flow.advance(RATE / 2);
    let input = |node: &str| {
        let status = world.status(node).unwrap();
        status.streams.iter().map(|stream| stream.members[0].input_packets).sum::<u64>()
    };
    assert!(input("r3") > 0 && world.status("r1").unwrap().streams.is_empty());
    let status = succeed(&["status", "--fleet", &keys]);
    assert!(status.contains("plan 2") && !status.contains("missing"), "{status}");
    assert!(succeed(&["rollback", "--fleet", &keys]).contains("all nodes run the new plan"));
    flow.advance(RATE / 2);

    let snapshot = at("snapshot");
    etcdctl(&url, &keys, &["snapshot", "save", &snapshot]);

    // What operators do beside, while frames flow.
    let diff = |plan: &str| fleet(&["diff", plan, "--fleet", &keys]);
    let (code, text) = diff(&second);
    assert!(code == 1 && text.contains("axis") && text.contains("other paths"), "{text}");
    assert_eq!(diff(&first).0, 0);
    succeed(&["pause", "--why", "shift", "--fleet", &keys]);
    let (code, text) = fleet(&["apply", &second, "--fleet", &keys]);
    assert!(code == 2 && text.contains("paused (shift)"), "{text}");
    assert!(succeed(&["status", "--fleet", &keys]).contains("paused: shift"));
    succeed(&["pause", "--end", "--fleet", &keys]);
    let (code, text) = fleet(&["apply", &second, "--without", "b", "--fleet", &keys]);
    assert!(code == 1 && text.contains("cannot be left out"), "{text}");
    let net = at("net.toml");
    fs::write(&net, network("")).unwrap();
    let drain = ["drain", "r2", "--network", &net, "--soak", "1", "--batch", "1", "--fleet", &keys];
    let text = succeed(&drain);
    assert!(
        text.contains("batch 1: 1 of 2 streams") && text.contains("it may be stopped"),
        "{text}"
    );
    assert!(world.status("r2").unwrap().streams.is_empty(), "{text}");
    fs::write(&net, network("r2")).unwrap();
    let (code, text) = fleet(&["drain", "r1", "--network", &net, "--fleet", &keys]);
    assert!(code == 1 && text.contains("less protection"), "{text}");
    flow.advance(RATE / 2);
    // The plan before both batches.
    assert!(succeed(&["rollback", "--soak", "1", "--fleet", &keys]).contains("plan 4 to 1"));

    let history = succeed(&["history", "--fleet", &keys]);
    assert!(history.lines().count() == 4 && history.contains("runs"), "{history}");
    for node in NODES {
        let text = fs::read_to_string(managed_file(node)).expect("a file");
        assert!(text.contains("[[port]]"), "{node}: {text:?}");
    }
    let refused = run(&["reload", "a"]);
    assert!(refused.code == 2 && refused.err.contains("managed by \"fleet\""), "{refused:?}");
    // A store that was restored from a snapshot: nodes keep what they run, and the store takes their step.
    let restored = at("restored");
    #[rustfmt::skip]
    etcdctl(&url, &keys, &[
        "snapshot", "restore", &snapshot, "--data-dir", &restored, "--name", "m0", "--initial-cluster", &format!("m0={peer}"),
        "--initial-advertise-peer-urls", &peer, "--initial-cluster-token", "another",
    ]);
    children.0[0].kill().unwrap();
    children.0[0].wait().unwrap();
    children.0[0] = start_etcd(Path::new(&restored), [&url, &peer], &servers);
    wait_for("the store answers", || fleet(&["history", "--fleet", &keys]).0 == 0);
    let (code, text) = fleet(&["apply", &second, "--fleet", &keys]);
    assert!(code == 2 && text.contains("restored from a snapshot"), "{text}");
    assert!(fleet(&["status", "--fleet", &keys]).1.contains("apply --continue"));
    succeed(&["apply", "--continue", "--fleet", &keys]);
    wait_for("all nodes are of the step", || fleet(&["status", "--fleet", &keys]).0 == 0);
    flow.advance(RATE / 2);
    let sent = flow.finish_whole();
    assert!(sent > 2 * RATE, "{sent}");

    // Numbers are missing at the listener, as if new paths lost frames: the roll-out returns by itself.
    let flow = Flow::start(&world, ("talker", "listener"), 2, (GROUP, VLAN), SLOW, None);
    flow.advance(SLOW / 10);
    std::thread::scope(|scope| {
        let applied = scope.spawn(|| fleet(&["apply", &second, "--soak", "60", "--fleet", &keys]));
        let status = || fleet(&["status", "--json", "--fleet", &keys]).1;
        wait_for("new paths are used", || {
            let status = status();
            status.contains("\"phase\": \"send\"") && !status.contains("waiting")
        });
        // A jump of less than the history, which has 64. A late one skips no number: again, until one is reported.
        while !applied.is_finished() {
            let begun = flow.begun();
            wait_for("more frames", || flow.begun() > begun + SLOW / 10);
            let streams = world.status("a").unwrap().streams;
            let axis = streams.into_iter().find(|stream| stream.name == "axis").unwrap();
            let number = axis.generation.unwrap().gen_seq_num.wrapping_add(30);
            let set = Request::SetNumber { stream: "axis".into(), number, force: true };
            Client::to_node(Some("a"), Path::new(DIRECTORY)).unwrap().request(&set).unwrap();
        }
        let (code, text) = applied.join().unwrap();
        let is_reported = text.contains("loses frames: stream \"axis\" lost");
        assert!(code == 1 && is_reported && text.contains("returned to the old plan"), "{text}");
    });
    flow.finish();

    // A node whose credentials are void keeps what it runs. Its key in the store decides nothing.
    etcdctl(&url, &keys, &["del", "plan/key/r2"]);
    succeed(&["revoke", "r2", "--fleet", &keys]);
    let (code, text) = fleet(&["revoke", "r2", "--fleet", &keys]);
    assert!(code == 2 && text.contains("no node \"r2\" was invited"), "{text}");
    let log = at("log-r2");
    wait_for("the agent is refused", || fs::read_to_string(&log).unwrap().contains("denies"));
    assert_eq!(fleet(&["status", "--fleet", &keys]).0, 4);

    // The control: in one step.
    drop(children);
    let flow = Flow::start(&world, ("talker", "listener"), 3, (GROUP, VLAN), RATE, None);
    flow.advance(RATE / 2);
    for node in NODES {
        if let Ok(text) = fs::read_to_string(format!("{second}/{node}.toml")) {
            let mut manager = Client::to_managed(node).unwrap();
            manager.order(&Request::ReplaceFile { text }).unwrap();
        }
    }
    let begun = flow.begun();
    wait_for("more frames", || flow.begun() > begun + RATE / 2);
    let lost = flow.finish().delivery.lost();
    assert!(lost > 0, "the control loses frames");
}
