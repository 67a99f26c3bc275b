//! `show`, `reset`, `reload` and `stream` against a simulated control socket.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{onbeat, run};
use nix::poll::{PollFd, PollTimeout, poll};
use onbeat_frer::prp::{LanCounters, NodeKind};
use onbeat_frer::watch::EventKind;
use onbeat_node::control::{
    Event, EventDetail, EventStart, LanFrames, LanStatus, NodeStatus, NodesStatus, PathStatus,
    RemoteNode, Reply, Request, Response, Server, Skew, StreamPaths, StreamStatus,
};
use onbeat_testing::{CommandOutput, Feature, TemporaryDirectory, require_all};

fn answer(request: &Request) -> Reply {
    Reply::Now(match request {
        Request::Ping => Response::Pong { node: "a".into(), pid: 7, configuration: None },
        Request::Show => {
            let stream = |name: &str| StreamStatus { name: name.into(), ..StreamStatus::default() };
            let streams = vec![stream("axis-1"), stream("axis-2")];
            let status = NodeStatus { node: "a".into(), streams, ..NodeStatus::default() };
            Response::Status { status: Box::new(status) }
        }
        Request::Streams { streams } => {
            let stream =
                |name: &String| StreamStatus { name: name.clone(), ..StreamStatus::default() };
            match streams.iter().find(|name| !["axis-1", "axis-2"].contains(&name.as_str())) {
                Some(name) => Response::Error { message: format!("no stream {name:?}") },
                None => Response::Streams { streams: streams.iter().map(stream).collect() },
            }
        }
        Request::Configuration => Response::Configuration { text: String::new() },
        Request::StoredConfiguration => {
            Response::StoredConfiguration { text: String::new(), of_file: 0 }
        }
        Request::SetStreams { remove, text, .. } => {
            Response::Done { message: format!("{remove:?} {text:?}") }
        }
        Request::StoreStreams { remove, .. } => Response::Done { message: remove.to_string() },
        Request::SetNumber { stream, number, force } => {
            Response::Done { message: format!("{stream} {number} {force}") }
        }
        Request::ReplaceFile { text } => Response::Done { message: text.clone() },
        Request::Prove { streams, text, file } => {
            Response::Done { message: format!("{streams:?} {text:?} {file:?}") }
        }
        Request::Summary { .. } => Response::Summary { summary: Box::default() },
        Request::Paths { stream } => {
            let skew = |p50, p99, max| Some(Skew { p50, p99, max });
            let paths = vec![
                path("path1", 4, 98, skew(-4_100_000, -3_900_000, -3_800_000)),
                path("path2", 7, 2, skew(4_100_000, 5_000_000, 6_000_000)),
            ];
            let unmeasured = StreamPaths {
                stream: "axis-2".into(),
                paths: vec![path("path1", 0, 0, None)],
                ..StreamPaths::default()
            };
            let measured = StreamPaths {
                stream: "axis-1".into(),
                measured: 100,
                samples: 100,
                paths,
                history_length: Some(64),
                history_length_auto: true,
                history_length_needed: Some(42),
                reset_timeout_ms: 2000,
                reset_timeout_auto: false,
                reset_timeout_ms_needed: Some(9),
                longest_gap_ns: 4_000_000,
            };
            let mut streams = vec![measured, unmeasured];
            streams.retain(|paths| stream.as_ref().is_none_or(|name| *name == paths.stream));
            Response::Paths { streams }
        }
        Request::Nodes => Response::Nodes { nodes: Box::new(nodes()) },
        Request::Reset { stream, .. } if stream == "axis-1" => {
            Response::Done { message: format!("stream {stream:?} is reset") }
        }
        Request::Reset { stream, .. } => {
            Response::Error { message: format!("no stream {stream:?}") }
        }
        Request::Reload { .. } => {
            Response::Error { message: "a.toml:3:1: unknown key \"x\"".into() }
        }
        Request::Events { since, wait } => events(since.as_ref(), *wait),
        Request::AddStreams { text, file, .. } => {
            Response::Done { message: format!("{file}: {} lines", text.lines().count()) }
        }
        Request::ChangeStreams { file, .. } => Response::Error { message: format!("{file}:1:1") },
        Request::RemoveStreams { streams, .. } => {
            Response::Done { message: format!("gone: {}", streams.join(", ")) }
        }
        // No client of this version accepts this response.
        Request::Stop => Response::Pong { node: "a".into(), pid: 7, configuration: None },
    })
}

fn nodes() -> NodesStatus {
    let lan = |port: &str, accepted, duplicates| {
        let received = accepted + duplicates;
        let counters = LanCounters { received, accepted, duplicates, ..LanCounters::default() };
        LanStatus { port: port.into(), counters }
    };
    let frames = LanFrames { age_ns: Some(1_500_000), tagged: 12_800, ..LanFrames::default() };
    let node = RemoteNode {
        mac: "02:00:00:00:00:07".into(),
        kind: NodeKind::Danp,
        a: frames,
        b: LanFrames::default(),
        supervision_age_ns: Some(2_000_000_000),
        redbox: None,
    };
    NodesStatus {
        node: "a".into(),
        mac: "02:00:00:00:00:01".into(),
        next_sequence: 7,
        lans: vec![lan("a", 12_800, 0), lan("b", 0, 12_800)],
        nodes: vec![node],
        ..NodesStatus::default()
    }
}

fn path(port: &str, lost_packets: u64, first: u64, skew_ns: Option<Skew>) -> PathStatus {
    PathStatus { port: port.into(), input_packets: 12_800, lost_packets, first, skew_ns }
}

/// Events 8 and 9; a request that waits for more receives an error that the node exits.
fn events(since: Option<&EventStart>, wait: bool) -> Response {
    let event = |number, detail| Event {
        number,
        time: format!("2025-01-31T12:00:0{number}.000000Z"),
        monotonic_ns: number * 1_000_000_000,
        stream: Some("axis-1".into()),
        port: Some("path2".into()),
        member: Some(1),
        detail,
    };
    let known = match since {
        None => 7,
        Some(EventStart::Number(number)) => *number,
        Some(EventStart::Time(time)) => {
            if time == "2025-01-31" {
                7
            } else {
                9
            }
        }
    };
    if wait && known >= 9 {
        return Response::Error { message: "the node exits".into() };
    }
    let all = [
        event(8, EventDetail::Watch(EventKind::PathLoss { packets: 5 })),
        event(9, EventDetail::Watch(EventKind::PathBack { packets: 1234 })),
    ];
    let events = all.into_iter().filter(|event| event.number > known).collect();
    Response::Events { events, missed: 7u64.saturating_sub(known), last: 9 }
}

/// Runs a command line while the node answers.
fn run_beside_node(server: &mut Server, line: &[&str]) -> CommandOutput {
    run_beside(server, line, answer)
}

/// Runs a command line while a node answers by `answer`.
pub(crate) fn run_beside(
    server: &mut Server,
    line: &[&str],
    mut answer: impl FnMut(&Request) -> Reply,
) -> CommandOutput {
    std::thread::scope(|scope| {
        let command = scope.spawn(|| run(line));
        let end = Instant::now() + Duration::from_secs(60);
        while !command.is_finished() {
            assert!(Instant::now() < end, "{line:?} does not end");
            let mut fds: Vec<PollFd<'_>> =
                server.fds().map(|(fd, events)| PollFd::new(fd, events)).collect();
            poll(&mut fds, PollTimeout::from(20u8)).expect("poll");
            drop(fds);
            server.step(Instant::now(), &mut answer);
        }
        command.join().expect("it runs")
    })
}

#[test]
fn requests_are_sent_and_responses_printed() {
    let directory = TemporaryDirectory::new("node");
    let socket = directory.file("a.sock");
    let mut server = Server::bind(&socket).expect("a control socket");
    let node = socket.to_str().expect("a path that is text");
    let mut ran = |line: &[&str]| run_beside_node(&mut server, line);

    let CommandOutput { code, out, err } = ran(&["show", node]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("node a  ") && out.contains("\naxis-2 "), "{out}");

    let CommandOutput { code, out, .. } = ran(&["show", node, "--json"]);
    let status: NodeStatus = serde_json::from_str(&out).expect("a status");
    assert_eq!((code, status.streams.len()), (0, 2));

    let CommandOutput { code, out, .. } = ran(&["show", node, "--stream", "axis-2"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("stream axis-2  "), "{out}");

    let CommandOutput { code, out, .. } = ran(&["show", node, "--stream", "axis-2", "--json"]);
    let stream: StreamStatus = serde_json::from_str(&out).expect("a status");
    assert_eq!((code, stream.name.as_str()), (0, "axis-2"));

    let CommandOutput { code, out, err } = ran(&["show", node, "--stream", "axis-3"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(err, "onbeat: no stream \"axis-3\"\n");

    // Several streams are an array.
    let both = ["show", node, "--stream", "axis-2", "--stream", "axis-1"];
    let CommandOutput { code, out, .. } = ran(&both);
    assert_eq!(code, 0);
    assert!(out.starts_with("stream axis-2  ") && out.contains("\nstream axis-1  "), "{out}");
    let CommandOutput { out, .. } = ran(&[&both[..], &["--json"]].concat());
    let streams: Vec<StreamStatus> = serde_json::from_str(&out).expect("statuses");
    assert_eq!(
        streams.iter().map(|stream| &*stream.name).collect::<Vec<_>>(),
        ["axis-2", "axis-1"]
    );

    let CommandOutput { code, out, err } = ran(&["show", node, "--paths"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    let first =
        "axis-1 path1 12,800 4 98.0 % -4.10 ms -3.90 ms -3.80 ms 64 (auto) 42 2,000 ms 9 ms";
    assert_eq!(rows[1].join(" "), first, "{out}");
    assert_eq!(rows[2].join(" "), "path2 12,800 7 2.0 % 4.10 ms 5.00 ms 6.00 ms", "{out}");
    assert_eq!(rows[3].join(" "), "axis-2 path1 12,800 0 – – – – – – never –", "{out}");
    let CommandOutput { code, out, .. } =
        ran(&["show", node, "--paths", "--stream", "axis-2", "--json"]);
    let paths: Vec<StreamPaths> = serde_json::from_str(&out).expect("paths");
    assert_eq!((code, paths[0].stream.as_str(), paths.len()), (0, "axis-2", 1));

    let CommandOutput { code, out, err } = ran(&["show", node, "--nodes"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let rows: Vec<String> =
        out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for row in [
        "node \"a\", 02:00:00:00:00:01, next number 7",
        "a 12,800 12,800 0 0 0 0 0 0",
        "b 12,800 0 12,800 0 0 0 0 0",
        "02:00:00:00:00:07 DANP 12,800 1.50 ms 0 – 0 2.00 s –",
    ] {
        assert!(rows.iter().any(|line| line == row), "{row}: {out}");
    }
    let CommandOutput { code, out, .. } = ran(&["show", node, "--nodes", "--json"]);
    assert_eq!((code, serde_json::from_str::<NodesStatus>(&out).expect("tables")), (0, nodes()));

    let CommandOutput { code, out, err } = ran(&["reset", "axis-1", "--node", node]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "stream \"axis-1\" is reset\n", ""));

    let CommandOutput { code, out, .. } =
        ran(&["stream", "set-number", "axis-1", "4711", "--force", "--node", node]);
    assert_eq!((code, out.as_str()), (0, "axis-1 4711 true\n"));
    let CommandOutput { code, out, .. } = ran(&["stream", "prove", "axis-1", "--node", node]);
    assert_eq!((code, out.as_str()), (0, "[\"axis-1\"] None \"\"\n"));

    let CommandOutput { code, out, err } = ran(&["reset", "axis-3", "--node", node]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(err, "onbeat: no stream \"axis-3\"\n");

    let CommandOutput { code, out, err } = ran(&["show", node, "--events"]);
    let lost = "2025-01-31T12:00:08.000000Z  8  stream \"axis-1\": member 1 (port \"path2\"): path lost: 5 packets passed without it\n";
    let back = "2025-01-31T12:00:09.000000Z  9  stream \"axis-1\": member 1 (port \"path2\"): path restored after 1234 packets without it\n";
    assert_eq!((code, out.as_str(), err.as_str()), (0, [lost, back].concat().as_str(), ""));

    let CommandOutput { code, out, err } = ran(&["show", node, "--events", "--since", "8"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, back, ""));
    let CommandOutput { code, out, err } =
        ran(&["show", node, "--events", "--since", "2025-01-31"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, [lost, back].concat().as_str(), ""));
    let CommandOutput { out, .. } = ran(&["show", node, "--events", "--stream", "axis-2"]);
    assert_eq!(out, "");

    let CommandOutput { code, out, err } =
        ran(&["show", node, "--events", "--since", "4", "--json"]);
    let events: Vec<Event> =
        out.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    assert_eq!((code, events.len(), events[1].number), (0, 2, 9));
    assert_eq!(err, "onbeat: 3 events before these no longer stored\n");
    let json: serde_json::Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!((&json["event"], &json["packets"]), (&"path_loss".into(), &5.into()));
    assert_eq!((&json["port"], &json["member"]), (&"path2".into(), &1.into()));

    // It continues after the last event.
    let CommandOutput { code, out, err } =
        ran(&["show", node, "--events", "--follow", "--since", "8"]);
    assert_eq!((code, out.as_str(), err.as_str()), (2, back, "onbeat: the node exits\n"));

    let file = directory.file("axis.toml");
    std::fs::write(&file, "[[stream]]\nname = \"axis-3\"\n").expect("a file");
    let file = file.to_str().expect("a path that is text");
    let CommandOutput { code, out, err } = ran(&["stream", "add", file, "--node", node]);
    assert_eq!((code, out, err.as_str()), (0, format!("{file}: 2 lines\n"), ""));
    let CommandOutput { code, out, err } = ran(&["stream", "change", "-", "--node", node]);
    assert_eq!((code, out.as_str(), err.as_str()), (2, "", "onbeat: standard input:1:1\n"));
    let CommandOutput { code, out, .. } =
        ran(&["stream", "remove", "axis-1", "axis-2", "--node", node]);
    assert_eq!((code, out.as_str()), (0, "gone: axis-1, axis-2\n"));

    let CommandOutput { code, out, err } = ran(&["reload", node]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(err, "onbeat: a.toml:3:1: unknown key \"x\"\n");
}

#[test]
fn a_follower_exits_with_the_node() {
    let directory = TemporaryDirectory::new("follower");
    let socket = directory.file("a.sock");
    let mut server = Server::bind(&socket).expect("a control socket");
    let node = socket.to_str().expect("a path that is text");
    let ran = std::thread::scope(|scope| {
        let command = scope.spawn(|| run(&["show", node, "--events", "--follow"]));
        let end = Instant::now() + Duration::from_secs(60);
        let mut follows = false;
        while !follows {
            assert!(Instant::now() < end, "it does not wait for events");
            let mut fds: Vec<PollFd<'_>> =
                server.fds().map(|(fd, events)| PollFd::new(fd, events)).collect();
            poll(&mut fds, PollTimeout::from(20u8)).expect("poll");
            drop(fds);
            server.step(Instant::now(), |request| match request {
                Request::Events { since, wait: true } => {
                    follows = true;
                    Reply::Later(events(since.as_ref(), false))
                }
                request => answer(request),
            });
        }
        drop(server);
        command.join().expect("it runs")
    });
    let CommandOutput { code, out, err } = ran;
    assert_eq!((code, out.lines().count()), (0, 2), "{err}");
    assert_eq!(err, "onbeat: the node has exited: no more events\n");
}

/// A file of another user in the current directory is neither a node nor a configuration for root.
#[test]
fn a_file_of_another_user_is_neither_a_node_nor_a_configuration() {
    if !require_all(&[Feature::Root]) {
        return;
    }
    let directory = TemporaryDirectory::new("planted");
    let file = directory.file("nx-planted");
    let text = "[node]\nname = \"victim\"\n[[port]]\nname = \"p\"\ninterface = \"nx0\"\n";
    std::fs::write(&file, text).expect("a file");
    let here = |line: &[&str], sudo: Option<&str>| -> CommandOutput {
        let mut command = onbeat();
        command.args(line).current_dir(directory.file(""));
        sudo.map(|uid| command.env("SUDO_UID", uid));
        command.output().expect("it starts").into()
    };
    let CommandOutput { code, err, .. } = here(&["down", "nx-planted"], None);
    assert_eq!(code, 2);
    assert!(err.contains("no node \"nx-planted\" at /sys/fs/bpf/onbeat/nx-planted"), "{err}");

    std::os::unix::fs::chown(&file, Some(65534), None).expect("another owner");
    let file = file.to_str().expect("a path that is text");
    let refusal = format!("configuration file {file:?} is refused: {file:?} belongs to user 65534");
    for line in [["down", file], ["run", file]] {
        let CommandOutput { code, out, err } = here(&line, None);
        assert_eq!((code, out.as_str()), (2, ""), "{line:?}: {err}");
        assert!(err.contains(&refusal), "{line:?}: {err}");
    }
    let CommandOutput { code, out, err } = here(&["run", "--check", file], None);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("node victim: ") && err.contains(&refusal), "{out}{err}");
    // The user who became root by sudo.
    let CommandOutput { code, err, .. } = here(&["down", "./nx-planted"], Some("65534"));
    assert_eq!(code, 2);
    assert!(err.contains("no node \"victim\""), "{err}");
}

#[test]
fn the_error_of_a_missing_node_shows_how_to_start_one() {
    let nowhere = "/nowhere/a.sock";
    assert!(!Path::new(nowhere).exists());
    for line in [
        &["show", nowhere][..],
        &["reset", "axis-1", "--node", nowhere],
        &["reload", nowhere],
        &["show", nowhere, "--events", "--follow"],
        &["stream", "remove", "axis-1", "--node", nowhere],
        &["show", "no-node-has-this-name"],
    ] {
        let CommandOutput { code, out, err } = run(line);
        assert_eq!((code, out.as_str()), (2, ""), "{line:?}");
        assert!(err.starts_with("onbeat: ") && err.contains("onbeat run FILE"), "{line:?}: {err}");
    }
}

#[test]
fn down_of_an_unknown_node_fails() {
    let CommandOutput { code, out, err } = run(&["down", "no-node-has-this-name"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("onbeat: ") && err.contains("no-node-has-this-name"), "{err}");

    for elsewhere in ["..", "/", "/sys/fs", "missing/a.toml"] {
        let CommandOutput { code, out, err } = run(&["down", elsewhere]);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.starts_with(&format!("onbeat: node {elsewhere:?}: ")), "{err}");
    }
}
