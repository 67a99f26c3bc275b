//! The socket for readers, whose group may have hostile members.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollTimeout, poll};
use onbeat_node::control::{Audience, Client, ClientError, Reply, Request, Response, Server};
use onbeat_testing::{Feature, TemporaryDirectory, require};

use crate::control::large_status;

/// The group of a test's readers, of any Debian.
const GROUP: &str = "nogroup";

/// A server with both sockets.
struct Node {
    directory: TemporaryDirectory,
    server: Server,
}

impl Node {
    fn new(name: &str) -> Option<Node> {
        if !require(Feature::Root) {
            return None;
        }
        let directory = TemporaryDirectory::new(name);
        let mut server = Server::bind(&directory.file("a.sock")).unwrap();
        server.admit(Audience::Readers, &directory.file("readers"), GROUP).unwrap();
        Some(Node { directory, server })
    }

    fn readers(&self) -> PathBuf {
        self.directory.file("readers/a.sock")
    }

    fn reader(&self) -> UnixStream {
        UnixStream::connect(self.readers()).unwrap()
    }

    /// Serves as a daemon's poll loop, until the client has finished.
    fn serve_while<T: Send>(
        &mut self,
        mut handle: impl FnMut(&Request) -> Reply,
        client: impl FnOnce(&Path) -> T + Send,
    ) -> T {
        let control = self.directory.file("a.sock");
        std::thread::scope(|scope| {
            let client = scope.spawn(move || client(&control));
            let end = Instant::now() + Duration::from_secs(60);
            while !client.is_finished() {
                assert!(Instant::now() < end, "the client is not served");
                let mut fds: Vec<PollFd<'_>> =
                    self.server.fds().map(|(fd, events)| PollFd::new(fd, events)).collect();
                // Also wakes up for the exit of the client.
                let bound = Duration::from_millis(20);
                let due = self
                    .server
                    .next_deadline()
                    .map_or(bound, |due| due.saturating_duration_since(Instant::now()).min(bound));
                poll(&mut fds, PollTimeout::try_from(due).unwrap()).unwrap();
                self.server.step(Instant::now(), &mut handle);
            }
            client.join().unwrap()
        })
    }
}

fn handle(request: &Request) -> Reply {
    Reply::Now(match request {
        Request::Ping => Response::Pong { node: "a".into(), pid: 7, configuration: None },
        Request::Show => large_status(),
        Request::Events { wait: true, .. } => {
            let response = Response::Events { events: Vec::new(), missed: 0, last: 7 };
            return Reply::Later(response);
        }
        _ => Response::Done { message: "done".into() },
    })
}

fn every_request() -> [Request; 20] {
    let (stream, text, file) = ("axis".to_owned(), String::new(), "-".to_owned());
    let (streams, force) = (vec![stream.clone()], true);
    [
        Request::Ping,
        Request::Show,
        Request::Configuration,
        Request::Streams { streams: streams.clone() },
        Request::Summary { streams: Vec::new(), limit: 100 },
        Request::Paths { stream: None },
        Request::Nodes,
        Request::Events { since: None, wait: false },
        Request::Reset { stream: stream.clone(), force },
        Request::SetNumber { stream, number: 7, force },
        Request::Prove { streams: streams.clone(), text: None, file: file.clone() },
        Request::AddStreams { text: text.clone(), file: file.clone(), force },
        Request::ChangeStreams { text: text.clone(), file: file.clone(), force },
        Request::SetStreams {
            remove: streams.clone(),
            text,
            file,
            store: true,
            base: None,
            has_lock: true,
            force,
        },
        Request::StoreStreams { remove: true, has_lock: true, force },
        Request::StoredConfiguration,
        Request::RemoveStreams { streams, force },
        Request::ReplaceFile { text: "[[port]]".into() },
        Request::Reload { force },
        Request::Stop,
    ]
}

#[test]
fn readers_query_and_change_nothing() {
    let Some(mut node) = Node::new("queries") else { return };
    let readers = node.readers();
    let group = nix::unistd::Group::from_name(GROUP).unwrap().unwrap().gid.as_raw();
    let socket = fs::symlink_metadata(&readers).unwrap();
    assert_eq!((socket.mode() & 0o7777, socket.uid(), socket.gid()), (0o660, 0, group));
    let directory = fs::symlink_metadata(readers.parent().unwrap()).unwrap();
    assert_eq!(directory.mode() & 0o7777, 0o755);

    let mut handled = Vec::new();
    let record = |request: &Request| {
        handled.push(request.clone());
        handle(request)
    };
    node.serve_while(record, |_| {
        let mut client = Client::connect(&readers).unwrap();
        for request in every_request() {
            match client.request(&request) {
                Ok(_) => assert!(request.is_read_only(), "{request:?}"),
                Err(ClientError::Refused(message)) => {
                    assert!(!request.is_read_only(), "{request:?}");
                    let expected =
                        "the socket for readers accepts no changes; run the command as root";
                    assert_eq!(message, expected);
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert!(handled.len() >= 5 && handled.iter().all(Request::is_read_only), "{handled:?}");
    let path = node.readers();
    drop(node.server);
    assert!(!path.exists());
}

/// Requests that never end, responses that are never read, connections that are only opened.
#[test]
fn hostile_readers_delay_no_control_client_and_are_disconnected() {
    let Some(mut node) = Node::new("hostile") else { return };
    let mut hostile = Vec::new();
    for requests in [
        &b"{\"request\":\"show\"}\n{\"request\":\"show\"}\n"[..],
        b"{\"request\":\"show\"}\n",
        b"{\"request\":\"events\",\"wait\":true}\n",
        b"{\"request\":",
        b"",
    ] {
        for _ in 0..3 {
            let mut stream = node.reader();
            stream.write_all(requests).unwrap();
            hostile.push(stream);
        }
    }
    node.serve_while(handle, |control| {
        let mut client = Client::connect(control).unwrap();
        client.request(&Request::Ping).unwrap();
        let Response::Status { status } = client.request(&Request::Show).unwrap() else { panic!() };
        assert_eq!(status.streams.len(), 20_000);
    });
    // The wait of each deadline is skipped: 5 s for each long response, 30 s for a request.
    let mut now = Instant::now();
    let start = now;
    while let Some(deadline) = node.server.next_deadline() {
        now = deadline.max(now);
        assert!(now - start < Duration::from_secs(150), "{now:?}");
        node.server.step(now, handle);
    }
    assert_eq!(node.server.fds().count(), 2, "only the listeners are left");
}

#[test]
fn a_hundred_readers_at_once_are_all_served() {
    let Some(mut node) = Node::new("hundred") else { return };
    let readers = node.readers();
    node.serve_while(handle, |_| {
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    let mut client = Client::connect(&readers).unwrap();
                    client.request(&Request::Ping).unwrap();
                });
            }
        });
    });
}

/// A reader that sends requests without end has its share of the time, as has the next one.
#[test]
fn requests_of_readers_are_handled_in_turn_within_their_share() {
    const REQUESTS: usize = 8;
    let Some(mut node) = Node::new("share") else { return };
    let mut streams = [node.reader(), node.reader()];
    for stream in &mut streams {
        let requests = "{\"request\":\"ping\"}\n".repeat(REQUESTS);
        stream.write_all(requests.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    }
    // Each takes more than the time that is available at once.
    let slow = |request: &Request| {
        std::thread::sleep(Duration::from_millis(6));
        handle(request)
    };
    let (mut handled, mut steps) = (0, 0);
    let started = Instant::now();
    while handled < 2 * REQUESTS {
        let before = handled;
        node.server.step(Instant::now(), |request| {
            handled += 1;
            slow(request)
        });
        assert!(handled - before <= 1, "{} requests in one step", handled - before);
        steps += 1;
        let pause = node.server.next_deadline().expect("the end of the pause");
        std::thread::sleep(pause.saturating_duration_since(Instant::now()));
    }
    assert!(steps >= 2 * REQUESTS);
    // 16 requests of 6 ms each in a quarter of the time; the first 5 ms need no pause.
    let least = Duration::from_millis(2 * REQUESTS as u64 * 6 - 6) * 3;
    assert!(started.elapsed() >= least, "{:?}", started.elapsed());
    // A pause may precede the end of the connections.
    while let Some(due) = node.server.next_deadline() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        node.server.step(Instant::now(), handle);
    }
    for mut stream in streams {
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        assert_eq!(answers.lines().count(), REQUESTS);
    }
}

#[test]
fn a_long_request_of_a_reader_is_cut_off() {
    let Some(mut node) = Node::new("long") else { return };
    let readers = node.readers();
    let answer = node.serve_while(handle, |_| {
        let mut stream = UnixStream::connect(&readers).unwrap();
        // The server closes while this is written.
        let _ = stream.write_all(&vec![b'x'; 1 << 20]);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    });
    assert!(answer.is_empty() || answer.contains("request longer than 65536 octets"), "{answer}");
}

/// What an agent of a fleet may do. A compromised one is to gain no more.
#[test]
fn managers_query_prove_and_replace_the_file_and_nothing_else() {
    let Some(mut node) = Node::new("managers") else { return };
    let managers = node.directory.file("managers");
    node.server.admit(Audience::Managers, &managers, GROUP).unwrap();
    let socket = managers.join("a.sock");
    assert_eq!(fs::symlink_metadata(&socket).unwrap().mode() & 0o7777, 0o660);
    let mut handled = Vec::new();
    let record = |request: &Request| {
        handled.push(serde_json::to_value(request).unwrap()["request"].clone());
        handle(request)
    };
    let long = "#".repeat(32 << 20);
    node.serve_while(record, |_| {
        let mut client = Client::connect(&socket).unwrap();
        for request in every_request() {
            let outcome = client.request(&request);
            let is_refused = matches!(&outcome, Err(ClientError::Refused(message))
                if message.contains("run the command as root"));
            assert!(outcome.is_ok() || is_refused, "{request:?}: {outcome:?}");
        }
        let waits = client.request(&Request::Events { since: None, wait: true }).unwrap_err();
        assert!(waits.to_string().contains("follow"), "{waits}");
        client.request(&Request::ReplaceFile { text: long.clone() }).unwrap();
        let longer = Request::ReplaceFile { text: "\"".repeat(33 << 20) };
        // The server closes while this is written.
        let refused = client.request(&longer).unwrap_err();
        let is_long = matches!(&refused, ClientError::Refused(message) if message.contains("request longer than"));
        assert!(is_long || matches!(refused, ClientError::Closed { .. }), "{refused}");
    });
    handled.dedup();
    assert_eq!(handled, ["ping", "show", "streams", "prove", "replace_file"]);
}

#[test]
fn a_directory_of_another_user_and_other_files_are_refused() {
    let Some(mut node) = Node::new("refused") else { return };
    let directory = node.directory.file("others");
    let canary = node.directory.file("canary");
    fs::write(&canary, "precious").unwrap();
    let refused = |node: &mut Node, why: &str| {
        let error =
            node.server.admit(Audience::Readers, &directory, GROUP).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(fs::read_to_string(&canary).unwrap(), "precious");
    };
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    refused(&mut node, "other users can write to it");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(&directory, Some(65534), None).unwrap();
    refused(&mut node, "it belongs to user 65534");
    std::os::unix::fs::chown(&directory, Some(0), None).unwrap();
    let socket = directory.join("a.sock");
    symlink(&canary, &socket).unwrap();
    refused(&mut node, "is used by another program, or is not a socket");
    fs::remove_file(&socket).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    refused(&mut node, "is used by another program, or is not a socket");
    fs::remove_dir_all(&directory).unwrap();
    symlink(node.directory.path(), &directory).unwrap();
    refused(&mut node, "it is a symbolic link");
    drop(other);

    let error = node.server.admit(Audience::Readers, &directory, "no-such-group").unwrap_err();
    assert!(error.is_without_group(), "{error}");
}

/// A killed daemon leaves its socket. In a directory of the group with the set-group-id bit no capability is required.
#[test]
fn an_abandoned_socket_is_replaced() {
    let Some(mut node) = Node::new("abandoned") else { return };
    let directory = node.directory.file("set-group-id");
    fs::create_dir(&directory).unwrap();
    std::os::unix::fs::chown(&directory, None, Some(65534)).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o2755)).unwrap();
    let socket = directory.join("a.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    node.server.admit(Audience::Readers, &directory, GROUP).unwrap();
    let stat = fs::symlink_metadata(&socket).unwrap();
    assert_eq!((stat.mode() & 0o7777, stat.gid()), (0o660, 65534));
    let directory = fs::symlink_metadata(&directory).unwrap();
    assert_eq!(directory.mode() & 0o7777, 0o2755, "the administrator's");
    node.serve_while(handle, |_| {
        Client::connect(&socket).unwrap().request(&Request::Ping).unwrap()
    });
}
