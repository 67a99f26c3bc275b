//! `show`, `reset` and `reload` against a node that is one only on its control socket.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{Directory, Ran, run};
use nix::poll::{PollFd, PollTimeout, poll};
use onbeat_node::control::{NodeStatus, Request, Response, Server, StreamStatus};

fn answer(request: Request) -> Response {
    match request {
        Request::Ping => Response::Pong { node: "a".into(), pid: 7 },
        Request::Show => {
            let stream = |name: &str| StreamStatus { name: name.into(), ..StreamStatus::default() };
            let streams = vec![stream("axis-1"), stream("axis-2")];
            let status = NodeStatus { node: "a".into(), streams, ..NodeStatus::default() };
            Response::Status { status: Box::new(status) }
        }
        Request::Reset { stream } if stream == "axis-1" => {
            Response::Done { message: format!("stream {stream:?} is reset") }
        }
        Request::Reset { stream } => Response::Error { message: format!("no stream {stream:?}") },
        Request::Reload => Response::Error { message: "a.toml:3:1: unknown key \"x\"".into() },
        // No client of this version takes that for an answer.
        Request::Stop => Response::Pong { node: "a".into(), pid: 7 },
    }
}

/// Runs a command line while the node answers.
fn run_beside_node(server: &mut Server, line: &[&str]) -> Ran {
    std::thread::scope(|scope| {
        let command = scope.spawn(|| run(line));
        let end = Instant::now() + Duration::from_secs(60);
        while !command.is_finished() {
            assert!(Instant::now() < end, "{line:?} does not end");
            let mut fds: Vec<PollFd<'_>> =
                server.fds().map(|(fd, events)| PollFd::new(fd, events)).collect();
            poll(&mut fds, PollTimeout::from(20u8)).expect("poll");
            drop(fds);
            server.step(Instant::now(), answer);
        }
        command.join().expect("it runs")
    })
}

#[test]
fn a_node_is_asked_and_told() {
    let directory = Directory::new("node");
    let socket = directory.file("a.sock");
    let mut server = Server::bind(&socket).expect("a control socket");
    let node = socket.to_str().expect("a path that is text");
    let mut ran = |line: &[&str]| run_beside_node(&mut server, line);

    let Ran { code, out, err } = ran(&["show", node]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("node a  ") && out.contains("\naxis-2 "), "{out}");

    let Ran { code, out, .. } = ran(&["show", node, "--json"]);
    let status: NodeStatus = serde_json::from_str(&out).expect("what the node said");
    assert_eq!((code, status.streams.len()), (0, 2));

    let Ran { code, out, .. } = ran(&["show", node, "--stream", "axis-2"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("stream axis-2  "), "{out}");

    let Ran { code, out, .. } = ran(&["show", node, "--stream", "axis-2", "--json"]);
    let stream: StreamStatus = serde_json::from_str(&out).expect("what the node said");
    assert_eq!((code, stream.name.as_str()), (0, "axis-2"));

    let Ran { code, out, err } = ran(&["show", node, "--stream", "axis-3"]);
    assert_eq!((code, out.as_str()), (2, ""));
    let expected = "onbeat: node \"a\" has no stream \"axis-3\"; streams there: axis-1, axis-2\n";
    assert_eq!(err, expected);

    let Ran { code, out, err } = ran(&["reset", "axis-1", "--node", node]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "stream \"axis-1\" is reset\n", ""));

    let Ran { code, out, err } = ran(&["reset", "axis-3", "--node", node]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(err, "onbeat: no stream \"axis-3\"\n");

    let Ran { code, out, err } = ran(&["reload", node]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(err, "onbeat: a.toml:3:1: unknown key \"x\"\n");
}

#[test]
fn a_node_that_is_not_there_is_told_with_how_to_start_one() {
    let nowhere = "/nowhere/a.sock";
    assert!(!Path::new(nowhere).exists());
    for line in [
        &["show", nowhere][..],
        &["reset", "axis-1", "--node", nowhere],
        &["reload", nowhere],
        &["show", "no-node-has-this-name"],
    ] {
        let Ran { code, out, err } = run(line);
        assert_eq!((code, out.as_str()), (2, ""), "{line:?}");
        assert!(err.starts_with("onbeat: ") && err.contains("onbeat run FILE"), "{line:?}: {err}");
    }
}

#[test]
fn what_is_no_node_cannot_be_taken_down() {
    let Ran { code, out, err } = run(&["down", "no-node-has-this-name"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("onbeat: ") && err.contains("no-node-has-this-name"), "{err}");

    for elsewhere in ["..", "/", "/sys/fs", "missing/a.toml"] {
        let Ran { code, out, err } = run(&["down", elsewhere]);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.starts_with(&format!("onbeat: node {elsewhere:?}: ")), "{err}");
    }
}
