//! The control socket against clients that behave, and clients that do not.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};
use onbeat_node::control::{
    BindError, Client, ClientError, EVENT_WAIT, MAX_FOLLOWERS, NodeStatus, Reply, Request,
    Response, Server, StreamStatus, discover,
};
use onbeat_testing::TemporaryDirectory;

/// The lock of a process that was killed.
const DEAD: &str = r#"{"pid":1,"start":1,"boot":"","what":"onbeat run a.toml"}"#;

/// A directory with a control socket.
struct Directory(TemporaryDirectory);

impl Directory {
    fn new(name: &str) -> Directory {
        Directory(TemporaryDirectory::new(name))
    }

    fn socket(&self) -> PathBuf {
        self.0.file("a.sock")
    }
}

/// Larger than any socket buffer: it takes many partial writes.
pub(crate) fn large_status() -> Response {
    let stream = |n| StreamStatus { name: format!("axis-{n}"), ..StreamStatus::default() };
    let streams = (0..20_000).map(stream).collect();
    let status = NodeStatus { node: "a".into(), streams, ..NodeStatus::default() };
    Response::Status { status: Box::new(status) }
}

fn handle(request: &Request) -> Reply {
    Reply::Now(match request {
        Request::Ping => Response::Pong { node: "a".into(), pid: 7, configuration: None },
        Request::Show => large_status(),
        Request::Events { .. } => return Reply::Later(nothing()),
        Request::Reset { stream, .. } => {
            Response::Error { message: format!("no stream {stream:?}") }
        }
        Request::AddStreams { text, .. } | Request::ChangeStreams { text, .. } => {
            Response::Done { message: format!("{} octets", text.len()) }
        }
        Request::RemoveStreams { streams, .. } => Response::Done { message: streams.join(", ") },
        Request::Summary { .. } => Response::Summary { summary: Box::default() },
        Request::Paths { .. } => Response::Paths { streams: Vec::new() },
        Request::Nodes => Response::Nodes { nodes: Box::default() },
        Request::Streams { .. } => Response::Streams { streams: Vec::new() },
        Request::Configuration => Response::Configuration { text: String::new() },
        Request::StoredConfiguration
        | Request::SetStreams { .. }
        | Request::StoreStreams { .. }
        | Request::SetNumber { .. }
        | Request::Prove { .. }
        | Request::Reload { .. }
        | Request::ReplaceFile { .. }
        | Request::Stop => Response::Done { message: "done".into() },
    })
}

/// The response to a waiting request without an event.
fn nothing() -> Response {
    Response::Events { events: Vec::new(), missed: 0, last: 7 }
}

/// Serves until the client is through, as a daemon's poll loop would.
fn serve_while<T: Send>(server: &mut Server, client: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let client = scope.spawn(client);
        let end = Instant::now() + Duration::from_secs(60);
        while !client.is_finished() {
            assert!(Instant::now() < end, "the client is not served");
            let mut fds: Vec<PollFd<'_>> =
                server.fds().map(|(fd, events)| PollFd::new(fd, events)).collect();
            poll(&mut fds, PollTimeout::from(20u8)).unwrap();
            server.step(Instant::now(), handle);
        }
        client.join().unwrap()
    })
}

#[test]
fn every_request_gets_its_answer_on_one_connection() {
    let directory = Directory::new("answers");
    let mut server = Server::bind(&directory.socket()).unwrap();
    serve_while(&mut server, || {
        let mut client = Client::to_node(None, directory.0.path()).unwrap();
        let pong = client.request(&Request::Ping).unwrap();
        assert_eq!(pong, Response::Pong { node: "a".into(), pid: 7, configuration: None });
        let Response::Status { status } = client.request(&Request::Show).unwrap() else { panic!() };
        assert_eq!(status.streams.len(), 20_000);
        let refused =
            client.request(&Request::Reset { stream: "x".into(), force: false }).unwrap_err();
        assert_eq!(refused.to_string(), "no stream \"x\"");
        assert_eq!(
            client.request(&Request::Stop).unwrap(),
            Response::Done { message: "done".into() }
        );
    });
}

#[test]
fn garbage_gets_an_error_and_the_connection_goes_on() {
    let directory = Directory::new("garbage");
    let mut server = Server::bind(&directory.socket()).unwrap();
    let answers = serve_while(&mut server, || {
        let mut stream = UnixStream::connect(directory.socket()).unwrap();
        stream.write_all(b"\xff\xfe\n{}\n{\"request\":\"shw\"}\n\n[[[[\n").unwrap();
        stream.write_all(b"{\"request\":\"ping\"}\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        answers
    });
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), 6, "{answers:.300?}");
    assert!(answers[..5].iter().all(|answer| answer.contains("not a request")), "{answers:.300?}");
    assert_eq!(answers[5], "{\"response\":\"pong\",\"node\":\"a\",\"pid\":7}");
}

#[test]
fn a_request_may_be_long_and_an_endless_one_is_cut_off() {
    const MOST: usize = 1 << 20;
    let directory = Directory::new("endless");
    let mut server = Server::bind(&directory.socket()).unwrap();
    let answer = serve_while(&mut server, || {
        let mut client = Client::connect(&directory.socket()).unwrap();
        let (text, file, force) = ("x".repeat(MOST - 100), "-".into(), false);
        let taken = client.request(&Request::AddStreams { text, file, force }).unwrap();
        assert_eq!(taken, Response::Done { message: format!("{} octets", MOST - 100) });

        let mut stream = UnixStream::connect(directory.socket()).unwrap();
        // The server closes while we still write: that must not end the test.
        let _ = stream.write_all(&vec![b'x'; MOST]);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    assert!(answer.contains("request longer than 1048576 octets"), "{answer}");
}

/// A client that waits for an event, and its last response.
fn waiting(server: &mut Server, directory: &Directory) -> (Instant, UnixStream) {
    let mut stream = UnixStream::connect(directory.socket()).unwrap();
    stream.write_all(b"{\"request\":\"events\",\"wait\":true}\n").unwrap();
    let now = Instant::now();
    (0..3).for_each(|_| server.step(now, handle));
    stream.set_nonblocking(true).unwrap();
    let nothing_yet = stream.read(&mut [0; 16]).unwrap_err();
    assert_eq!(nothing_yet.kind(), std::io::ErrorKind::WouldBlock);
    (now, stream)
}

fn answered(stream: &mut UnixStream) -> String {
    let mut answers = [0; 4096];
    let length = stream.read(&mut answers).expect("an answer");
    String::from_utf8(answers[..length].to_vec()).unwrap()
}

#[test]
fn a_waiting_request_is_answered_at_the_event() {
    let directory = Directory::new("wait");
    let mut server = Server::bind(&directory.socket()).unwrap();
    let (now, mut stream) = waiting(&mut server, &directory);
    server.step(now, |request| {
        assert_eq!(*request, Request::Events { since: None, wait: true });
        Reply::Now(Response::Events { events: Vec::new(), missed: 3, last: 8 })
    });
    assert!(answered(&mut stream).contains("\"missed\":3"));
    server.step(now, |_| unreachable!("it was answered"));
}

#[test]
fn a_waiting_request_without_event_is_answered_after_the_time_out() {
    let directory = Directory::new("timeout");
    let mut server = Server::bind(&directory.socket()).unwrap();
    let (now, mut stream) = waiting(&mut server, &directory);
    let deadline = server.next_deadline().unwrap();
    assert_eq!(deadline, now + EVENT_WAIT);
    server.step(deadline, handle);
    assert!(answered(&mut stream).contains("\"last\":7"));
    // And may ask again.
    stream.write_all(b"{\"request\":\"ping\"}\n").unwrap();
    server.step(deadline, handle);
    assert!(answered(&mut stream).contains("pong"));
}

#[test]
fn another_request_or_a_close_ends_the_wait() {
    let directory = Directory::new("no-longer");
    let mut server = Server::bind(&directory.socket()).unwrap();
    let (now, mut stream) = waiting(&mut server, &directory);
    stream.write_all(b"{\"request\":\"ping\"}\n").unwrap();
    server.step(now, handle);
    let answers = answered(&mut stream);
    let answers: Vec<&str> = answers.lines().collect();
    assert!(answers.len() == 2 && answers[0].contains("events") && answers[1].contains("pong"));

    let (now, mut stream) = waiting(&mut server, &directory);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    server.step(now, handle);
    assert!(answered(&mut stream).contains("\"last\":7"));
    let (now, stream) = waiting(&mut server, &directory);
    drop(stream);
    server.step(now, handle);
    server.step(now, handle);
    assert_eq!(server.fds().count(), 2, "the listener, and the first client");
}

#[test]
fn a_client_that_reads_no_response_blocks_no_other_and_is_disconnected() {
    let directory = Directory::new("slow");
    let mut server = Server::bind(&directory.socket()).unwrap();
    let mut slow = UnixStream::connect(directory.socket()).unwrap();
    slow.write_all(b"{\"request\":\"show\"}\n{\"request\":\"show\"}\n").unwrap();
    serve_while(&mut server, || {
        let mut client = Client::connect(&directory.socket()).unwrap();
        client.request(&Request::Ping).unwrap();
    });
    let deadline = server.next_deadline().unwrap();
    server.step(deadline, handle);
    assert_eq!(server.fds().count(), 1, "only the listener is left");
    assert_eq!(server.next_deadline(), None);
}

#[test]
fn more_clients_than_there_are_places_wait_their_turn() {
    let directory = Directory::new("many");
    let mut server = Server::bind(&directory.socket()).unwrap();
    serve_while(&mut server, || {
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    let mut client = Client::connect(&directory.socket()).unwrap();
                    client.request(&Request::Ping).unwrap();
                });
            }
        });
    });
}

#[test]
fn followers_beyond_the_limit_are_refused_and_commands_pass() {
    let directory = Directory::new("followers");
    let mut server = Server::bind(&directory.socket()).unwrap();
    let follow = Request::Events { since: None, wait: true };
    // 8 more than there is room for, each with an open connection.
    let followers: Vec<UnixStream> = (0..MAX_FOLLOWERS + 8)
        .map(|_| {
            let mut stream = UnixStream::connect(directory.socket()).unwrap();
            serde_json::to_writer(&mut stream, &follow).unwrap();
            stream.write_all(b"\n").unwrap();
            server.step(Instant::now(), handle);
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    let refused = |stream: &UnixStream| {
        let mut answer = [0; 512];
        let length = (&*stream).read(&mut answer).unwrap_or(0);
        String::from_utf8_lossy(&answer[..length]).contains("32 clients already follow the events")
    };
    let refusals: Vec<bool> = followers.iter().map(refused).collect();
    assert_eq!(refusals.iter().filter(|refused| **refused).count(), 8);
    assert!(
        refusals[MAX_FOLLOWERS..].iter().all(|refused| *refused),
        "the last ones: {refusals:?}"
    );

    let _silent: Vec<UnixStream> = serve_while(&mut server, || {
        let silent = (0..200).map(|_| UnixStream::connect(directory.socket()).unwrap()).collect();
        for _ in 0..3 {
            let mut client = Client::connect(&directory.socket()).unwrap();
            client.request(&Request::Ping).unwrap();
        }
        silent
    });
    // An event reaches every follower that has a slot, and it keeps it to wait for the next one.
    for round in 0..2 {
        server.step(Instant::now(), |_| Reply::Now(nothing()));
        for mut stream in &followers[..MAX_FOLLOWERS] {
            let mut answer = [0; 512];
            let length = stream.read(&mut answer).expect("an event");
            assert!(answer[..length].ends_with(b"\n"), "round {round}");
            serde_json::to_writer(&mut stream, &follow).unwrap();
            stream.write_all(b"\n").unwrap();
        }
        server.step(Instant::now(), handle);
        assert!(!followers[..MAX_FOLLOWERS].iter().any(refused), "round {round}");
    }
    // A slot is free once its follower has gone.
    drop(followers);
    server.step(Instant::now(), handle);
    waiting(&mut server, &directory);
}

#[test]
fn the_last_answer_is_written_before_the_daemon_ends() {
    let directory = Directory::new("flush");
    let mut server = Server::bind(&directory.socket()).unwrap();
    let mut stream = UnixStream::connect(directory.socket()).unwrap();
    stream.write_all(b"{\"request\":\"show\"}\n").unwrap();
    server.step(Instant::now(), handle);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        server.flush(Duration::from_secs(30));
        drop(server);
        assert!(reader.join().unwrap().ends_with("}\n"));
    });
}

#[test]
fn the_socket_is_private_and_goes_with_the_server() {
    let directory = Directory::new("private");
    let server = Server::bind(&directory.socket()).unwrap();
    let mode = fs::metadata(directory.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(server);
    assert_eq!(fs::read_dir(directory.0.path()).unwrap().count(), 0);
}

#[test]
fn a_living_daemon_is_not_replaced_and_is_named() {
    let directory = Directory::new("living");
    let _server = Server::bind(&directory.socket()).unwrap();
    let error = Server::bind(&directory.socket()).unwrap_err();
    let own = std::process::id();
    assert!(
        matches!(&error, BindError::Running { holder, .. } if holder.pid == Some(own)),
        "{error}"
    );
    assert!(directory.socket().exists());
}

#[test]
fn a_dead_daemon_s_socket_is_replaced_and_other_files_are_not() {
    let directory = Directory::new("dead");
    // Dropping a listener leaves the file, as a killed daemon does, which leaves its lock, too.
    drop(UnixListener::bind(directory.socket()).unwrap());
    fs::write(directory.0.file("a.sock.node-lock"), DEAD).unwrap();
    let error = Client::connect(&directory.socket()).unwrap_err();
    assert!(matches!(error, ClientError::Dead { .. }), "{error}");
    // `onbeat down` queries the holder first.
    assert_eq!(Server::holder(&directory.socket()).unwrap(), None);
    drop(Server::bind(&directory.socket()).unwrap());
    assert_eq!(fs::read_dir(directory.0.path()).unwrap().count(), 0);

    fs::write(directory.socket(), "precious").unwrap();
    let error = Server::bind(&directory.socket()).unwrap_err();
    assert!(matches!(error, BindError::Occupied { .. }), "{error}");
    assert_eq!(fs::read_to_string(directory.socket()).unwrap(), "precious");
}

/// Without a lock that a killed daemon left, a socket that refuses connections is another program's,
/// which may be about to listen.
#[test]
fn a_socket_that_no_node_left_stays() {
    let directory = Directory::new("foreign-socket");
    let refused = || {
        let node = fs::metadata(directory.socket()).unwrap().ino();
        let error = Server::bind(&directory.socket()).unwrap_err();
        assert!(matches!(error, BindError::ForeignSocket { .. }), "{error}");
        let remedy = format!("rm {}", directory.socket().display());
        assert!(error.to_string().ends_with(&remedy), "{error}");
        assert_eq!(fs::metadata(directory.socket()).unwrap().ino(), node);
    };
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
    bind(socket.as_raw_fd(), &UnixAddr::new(&directory.socket()).unwrap()).unwrap();
    refused();
    // Nor does the attempt leave what would make it the node's.
    refused();
    drop(socket);
    refused();
    // Anyone has such a file: the process id of a program.
    fs::write(directory.0.file("a.sock.lock"), "4711").unwrap();
    refused();
    assert_eq!(fs::read_dir(directory.0.path()).unwrap().count(), 2);
    fs::remove_file(directory.socket()).unwrap();
    Server::bind(&directory.socket()).unwrap();
}

/// Others could exchange the socket, or plant files that root then follows or deletes.
#[test]
fn a_path_that_others_can_redirect_is_refused() {
    let directory = Directory::new("redirect");
    let canary = directory.0.file("canary");
    fs::write(&canary, "precious").unwrap();
    let refused = |path: &Path, why: &str| {
        let error = Server::bind(path).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert_eq!(fs::read_to_string(&canary).unwrap(), "precious");
    };
    refused(Path::new("/tmp/onbeat-test.sock"), "other users can write to it (mode 1777); use a");
    refused(Path::new("/"), "does not end in a file name");
    symlink(directory.0.path(), directory.0.file("link")).unwrap();
    refused(&directory.0.file("link/a.sock"), "it is a symbolic link");
    symlink(&canary, directory.socket()).unwrap();
    refused(&directory.socket(), "is not a socket");
    fs::remove_file(directory.socket()).unwrap();
    symlink(&canary, directory.0.file("a.sock.node-lock")).unwrap();
    refused(&directory.socket(), "it is a symbolic link");
}

/// Files that another program happens to have beside its own socket.
#[test]
fn locks_of_other_programs_stay_as_they_are() {
    let directory = Directory::new("foreign-locks");
    let [former, own] = ["a.sock.lock", "a.sock.node-lock"].map(|name| directory.0.file(name));
    for content in ["", "precious", "{\"pid\": 7}", "4711"] {
        fs::write(&former, content).unwrap();
        drop(Server::bind(&directory.socket()).unwrap());
        assert_eq!(fs::read_to_string(&former).unwrap(), content);
    }
    for content in ["", "precious", "{\"pid\": 7}", "7"] {
        fs::write(&own, content).unwrap();
        for error in [
            Server::bind(&directory.socket()).unwrap_err(),
            Server::holder(&directory.socket()).unwrap_err(),
        ] {
            assert!(matches!(error, BindError::ForeignLock { .. }), "{error}");
        }
        assert_eq!(fs::read_to_string(&own).unwrap(), content);
    }
    fs::write(&own, DEAD).unwrap();
    assert_eq!(Server::holder(&directory.socket()).unwrap(), None);
    let _server = Server::bind(&directory.socket()).unwrap();
    let holder = Server::holder(&directory.socket()).unwrap().unwrap();
    assert_eq!(holder.pid, Some(std::process::id()));
    let client = Client::connect(&directory.socket()).unwrap();
    assert_eq!(client.listener(), holder.pid);
}

/// The response of any program at a path goes to the terminal of root.
#[test]
fn an_answer_brings_no_control_characters() {
    let directory = Directory::new("escape");
    let mut server = Server::bind(&directory.socket()).unwrap();
    let answers = |request: &Request| {
        let text = "a\u{1b}[2J\u{9b}\n\t".to_owned();
        Reply::Now(match request {
            Request::Ping => Response::Error { message: text },
            _ => Response::Pong { node: text, pid: 1, configuration: None },
        })
    };
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut client = Client::connect(&directory.socket()).unwrap();
            let error = client.request(&Request::Ping).unwrap_err().to_string();
            (error, client.request(&Request::Show).unwrap())
        });
        while !client.is_finished() {
            server.step(Instant::now(), answers);
            std::thread::yield_now();
        }
        let clean = "a\\u{1b}[2J\\u{9b}\n\t";
        let (error, response) = client.join().unwrap();
        assert_eq!(error, clean);
        assert_eq!(
            response,
            Response::Pong { node: clean.to_owned(), pid: 1, configuration: None }
        );
    });
}

/// A request is whole in time, however often a part of it comes.
#[test]
fn a_client_that_never_finishes_a_request_is_given_up() {
    let directory = Directory::new("spaces");
    let mut server = Server::bind(&directory.socket()).unwrap();
    let mut slow = UnixStream::connect(directory.socket()).unwrap();
    server.step(Instant::now(), handle);
    let deadline = server.next_deadline().unwrap();
    for left_ms in [20_000u64, 10_000, 100, 0] {
        assert_eq!(server.fds().count(), 2, "{left_ms} ms before the deadline");
        slow.write_all(b" ").unwrap();
        server.step(deadline - Duration::from_millis(left_ms), handle);
    }
    assert_eq!(server.fds().count(), 1, "only the listener is left");
}

#[test]
fn nodes_whose_daemons_have_died_do_not_count() {
    let directory = Directory::new("dead-nodes");
    let dead = |name: &str| drop(UnixListener::bind(directory.0.file(name)).unwrap());
    dead("b.sock");
    dead("c.sock");
    let only = Client::to_node(None, directory.0.path()).unwrap_err().to_string();
    assert!(only.contains("have terminated: b, c;") && only.contains("onbeat down NODE"), "{only}");
    let _server = Server::bind(&directory.socket()).unwrap();
    assert!(Client::to_node(None, directory.0.path()).is_ok(), "the dead ones do not count");
    let unknown = Client::to_node(Some("x"), directory.0.path()).unwrap_err().to_string();
    assert_eq!(unknown, "no node \"x\" is running; running nodes: a");
    let named = Client::to_node(Some("b"), directory.0.path()).unwrap_err();
    assert!(matches!(named, ClientError::Dead { .. }), "{named}");
}

#[test]
fn an_ambiguous_node_is_an_error() {
    let directory = Directory::new("which");
    let none = Client::to_node(None, directory.0.path()).unwrap_err().to_string();
    assert!(none.contains("no node is running") && none.contains("onbeat run FILE"), "{none}");
    let _a = Server::bind(&directory.socket()).unwrap();
    let _b = Server::bind(&directory.0.file("b.sock")).unwrap();
    let names: Vec<String> = discover(directory.0.path()).into_iter().map(|node| node.0).collect();
    assert_eq!(names, ["a", "b"]);
    let several = Client::to_node(None, directory.0.path()).unwrap_err().to_string();
    assert_eq!(several, "several nodes are running: a, b; select one with --node");
    let unknown = Client::to_node(Some("c"), directory.0.path()).unwrap_err().to_string();
    assert_eq!(unknown, "no node \"c\" is running; running nodes: a, b");
    assert!(Client::to_node(Some("b"), directory.0.path()).is_ok());
    assert!(Client::to_node(Path::new("/nowhere/x.sock").to_str(), directory.0.path()).is_err());
}
