//! Sessions over the loopback interface: both ends use one clock.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use onbeat_delay::probe::{Key, Profile, ProfileSegment, Sample};
use onbeat_probe::{EchoConfig, EchoCounts, PingConfig, PingReport, Reflector, ping, read_key};
use onbeat_testing::{Feature, TemporaryDirectory, require_all, require_that};

/// Maximum wait for an immediate event.
const BOUND: Duration = Duration::from_secs(60);

/// Runs a reflector during `act`; returns its counters.
fn with_reflector(
    address: &str,
    sessions: Option<usize>,
    act: impl FnOnce(SocketAddr),
) -> EchoCounts {
    with_keyed_reflector(address, sessions, None, act)
}

/// As [`with_reflector`], with a key.
fn with_keyed_reflector(
    address: &str,
    sessions: Option<usize>,
    key: Option<Key>,
    act: impl FnOnce(SocketAddr),
) -> EchoCounts {
    let addresses = vec![address.parse().unwrap()];
    let mut reflector = Reflector::open(&EchoConfig { addresses, port: 0, sessions, key }).unwrap();
    let at = reflector.addresses()[0];
    assert_ne!(at.port(), 0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reflecting = scope.spawn(|| reflector.run(&|| stop.load(Ordering::Relaxed)));
        // Also stopped if `act` fails, otherwise the scope would never end.
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(at)));
        stop.store(true, Ordering::Relaxed);
        reflecting.join().unwrap().unwrap();
        acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    reflector.counts()
}

fn config(to: SocketAddr, probes: u64) -> PingConfig {
    PingConfig {
        to,
        from: None,
        profile: Profile::new(vec![ProfileSegment::constant(2_000.0, 10_000_000_000)]),
        count: Some(probes),
        sizes: vec![44],
        timeout_ns: BOUND.as_nanos() as i64,
        id: 77,
        key: None,
    }
}

fn run(config: &PingConfig) -> (PingReport, Vec<Sample>) {
    let mut samples = Vec::new();
    let report = ping(config, &|| false, &mut |sample, _| samples.push(*sample)).unwrap();
    (report, samples)
}

#[test]
fn every_probe_has_its_four_times() {
    for address in ["127.0.0.1", "::1"] {
        if UdpSocket::bind((address, 0)).is_err() && !require_that(false, "IPv6 on lo") {
            continue;
        }
        // Linux stamps received packets some time after the first socket has asked for that.
        let stamps = UdpSocket::bind((address, 0)).unwrap();
        setsockopt(&stamps, sockopt::ReceiveTimestampns, &true).unwrap();
        let is_stamped = |_| {
            let run = |at| run(&config(at, 100)).0;
            with_reflector(address, None, |at| assert!(run(at).counts.answered > 0)).stamped_late
                == 0
        };
        assert!((0..100).any(is_stamped), "received packets are not stamped");
        let counts = with_reflector(address, None, |at| {
            let (report, samples) =
                run(&PingConfig { sizes: vec![44, 1400, 100], ..config(at, 300) });
            assert_eq!((report.counts.sent, report.counts.answered), (300, 300), "{report:?}");
            assert_eq!((report.refused, report.unreachable, report.clock_steps), (0, 0, 0));
            assert_eq!(report.lost_there, Some(0));
            assert_eq!(report.stamped_late, [0; 2], "{address}");
            assert!(samples.iter().map(|sample| sample.sequence).eq(0..300));
            for sample in &samples {
                let answer = sample.answer.unwrap();
                assert!(sample.sent_ns >= sample.intended_ns, "{sample:?}");
                assert!(sample.there_ns().unwrap() >= 0, "one clock: {sample:?}");
                assert!(answer.in_reflector_ns() >= 0, "{sample:?}");
                assert!(sample.back_ns().unwrap() >= 0, "one clock: {sample:?}");
                assert_eq!(answer.ttl, 64);
            }
        });
        assert_eq!((counts.received, counts.answered), (300, 300));
        assert_eq!(counts.stamped_late, 0, "{counts:?}");
        assert_eq!((counts.too_short, counts.reflectors, counts.refused), (0, 0, 0));
    }
}

#[test]
fn a_reflector_with_state_counts_sessions() {
    let counts = with_reflector("127.0.0.1", Some(8), |at| {
        for id in [1, 2] {
            let (_, samples) = run(&PingConfig { id, ..config(at, 5) });
            let numbers = samples.iter().map(|sample| sample.answer.unwrap().reflector_sequence);
            assert!(numbers.eq(0..5));
        }
    });
    assert_eq!((counts.sessions, counts.evicted), (2, 0));
}

/// A packet of a TWAMP Light sender, and other datagrams.
#[test]
fn datagrams_of_other_senders_are_answered_or_counted() {
    let counts = with_reflector("127.0.0.1", None, |at| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(BOUND)).unwrap();
        socket.send_to(&[0; 13], at).unwrap();
        socket.send_to(&[], at).unwrap();
        let mut test = [0x5a; 20];
        test[..14].copy_from_slice(&[0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1]);
        socket.send_to(&test, at).unwrap();
        let mut room = [0; 100];
        let (len, from) = socket.recv_from(&mut room).unwrap();
        assert_eq!((len, from), (41, at), "the reply is to the last, from its destination address");
        assert_eq!(room[..4], [0, 0, 0, 9]);
        assert_eq!(room[24..38], test[..14]);
        assert_eq!(room[40], 64, "TTL");
    });
    assert_eq!((counts.received, counts.too_short, counts.answered), (3, 2, 1));
}

/// Returns true if datagrams are pending in the socket of a port, the first column after the state
/// (proc_net_udp(5)). The kernel prints the table in parts, and omits a line if sockets are opened and closed
/// between two parts: the table is read again, until it has the line.
fn waits(port: u16) -> bool {
    let local = format!("0100007F:{port:04X}");
    loop {
        let sockets = fs::read_to_string("/proc/self/net/udp").unwrap();
        let mut lines = sockets.lines().map(|line| line.split_whitespace().skip(1));
        if let Some(mut line) = lines.find_map(|mut line| (line.next()? == local).then_some(line)) {
            return !line.nth(2).unwrap().ends_with(":00000000");
        }
    }
}

/// Probes of a second at 5,000 packets/s are pending for a stopped reflector: none is lost, so that no loss of a
/// busy host is attributed to the path.
#[test]
fn a_stopped_reflector_answers_pending_probes_when_resumed() {
    if !require_all(&[Feature::Root]) {
        return;
    }
    let addresses = vec![IpAddr::from([127, 0, 0, 1])];
    let config = EchoConfig { addresses, port: 0, sessions: None, key: None };
    let mut reflector = Reflector::open(&config).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let probe = [0x5a; 44];
    for _ in 0..5_000 {
        socket.send_to(&probe, reflector.addresses()[0]).unwrap();
    }
    let port = reflector.addresses()[0].port();
    let stop = || !waits(port);
    reflector.run(&stop).unwrap();
    assert_eq!(reflector.counts().received, 5_000);
}

/// The reply comes from the address that the probe was sent to, not from that of the return route.
#[test]
fn an_answer_comes_from_where_the_probe_went() {
    with_reflector("0.0.0.0", None, |at| {
        let to = SocketAddr::new(IpAddr::from([127, 0, 0, 9]), at.port());
        let (report, _) = run(&config(to, 3));
        assert_eq!(report.counts.answered, 3, "{report:?}");
    });
}

/// The port of a former sender belongs to another reflector now, which receives the reply.
#[test]
fn two_reflectors_do_not_answer_each_other() {
    for octets in [14, 44, 192] {
        let open = |port| {
            let addresses = vec![IpAddr::from([127, 0, 0, 1])];
            Reflector::open(&EchoConfig { addresses, port, sessions: None, key: None }).unwrap()
        };
        let mut first = open(0);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(&vec![0; octets], first.addresses()[0]).unwrap();
        let port = sender.local_addr().unwrap().port();
        drop(sender);
        let mut second = open(port);
        // One reply is correct; a few more suffice to detect a loop.
        for _ in 0..5 {
            for reflector in [&mut first, &mut second] {
                let port = reflector.addresses()[0].port();
                reflector.run(&|| !waits(port)).unwrap();
            }
        }
        let (first, second) = (first.counts(), second.counts());
        assert_eq!((first.received, first.answered), (1, 1), "{octets} octets");
        assert_eq!((second.received, second.reflectors, second.answered), (1, 1, 0));
    }
}

/// As with routers that send and answer by one port.
#[test]
fn a_sender_with_the_port_of_the_reflector_is_answered() {
    let counts = with_reflector("127.0.0.1", None, |at| {
        let sender = UdpSocket::bind(("127.0.0.2", at.port())).unwrap();
        sender.send_to(&[0; 44], at).unwrap();
        sender.set_read_timeout(Some(BOUND)).unwrap();
        assert_eq!(sender.recv(&mut [0; 44]).unwrap(), 44);
    });
    assert_eq!((counts.reflectors, counts.answered), (0, 1));
}

#[test]
fn without_a_reflector_all_probes_are_lost_and_reported() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (report, samples) = run(&PingConfig { timeout_ns: 1_000_000, ..config(closed, 20) });
    assert_eq!((report.counts.sent, report.counts.lost), (20, 20));
    assert!(report.unreachable > 0, "{report:?}");
    assert!(samples.iter().all(|sample| sample.answer.is_none()));
}

#[test]
fn a_stopped_sender_terminates() {
    with_reflector("127.0.0.1", None, |at| {
        let stop = AtomicBool::new(false);
        let endless = PingConfig { count: None, ..config(at, 0) };
        let (first, ended) = mpsc::channel();
        let report = ping(&endless, &|| stop.load(Ordering::Relaxed), &mut |sample, _| {
            stop.store(true, Ordering::Relaxed);
            let _ = first.send(sample.sequence);
        })
        .unwrap();
        assert_eq!(ended.try_recv(), Ok(0));
        assert!(report.counts.sent < 20_000, "{report:?}");
        assert_eq!(report.counts.lost, 0);
    });
}

#[test]
fn only_senders_with_the_key_are_answered() {
    let (key, other) = (Key::new(&[7; 32]), Key::new(&[8; 32]));
    let counts = with_keyed_reflector("127.0.0.1", Some(8), key.clone(), |at| {
        let keyed = PingConfig { key, sizes: vec![112, 1400], ..config(at, 50) };
        let (report, samples) = run(&keyed);
        assert_eq!((report.counts.answered, report.counts.unverified), (50, 0), "{report:?}");
        let numbers = samples.iter().map(|sample| sample.answer.unwrap().reflector_sequence);
        assert!(numbers.eq(0..50));
        // Two without a reply: a short timeout limits the wait.
        let unheard = PingConfig { timeout_ns: 1_000_000, ..config(at, 20) };
        let (report, _) = run(&PingConfig { key: other, sizes: vec![112], ..unheard.clone() });
        assert_eq!((report.counts.lost, report.counts.unverified), (20, 0), "{report:?}");
        let (report, _) = run(&PingConfig { sizes: vec![44, 112], ..unheard });
        assert_eq!(report.counts.lost, 20, "{report:?}");
        // The reflector has processed all of them once it has answered the following one.
        let (report, _) = run(&PingConfig { count: Some(1), ..keyed });
        assert_eq!(report.counts.answered, 1, "{report:?}");
    });
    assert_eq!((counts.received, counts.answered), (91, 51), "{counts:?}");
    assert_eq!((counts.unverified, counts.too_short), (30, 10), "{counts:?}");
    assert_eq!(counts.sessions, 2, "an unverified packet has no session");
}

/// It accepts an authenticated packet as an unauthenticated one with padding, and answers.
#[test]
fn unauthenticated_replies_are_discarded() {
    let counts = with_reflector("127.0.0.1", None, |at| {
        let key = Key::new(&[7; 32]);
        // Long enough that each reply arrives before its probe expires.
        let timeout_ns = 200_000_000;
        let keyed = PingConfig { key, sizes: vec![112], timeout_ns, ..config(at, 20) };
        let (report, samples) = run(&keyed);
        assert_eq!((report.counts.answered, report.counts.lost), (0, 20), "{report:?}");
        assert!(report.counts.unverified > 0, "{report:?}");
        assert!(samples.iter().all(|sample| sample.answer.is_none()));
        let (report, _) = run(&config(at, 1));
        assert_eq!(report.counts.answered, 1, "{report:?}");
    });
    assert_eq!(counts.answered, 21);
}

#[test]
fn unusable_key_files_are_refused() {
    let directory = TemporaryDirectory::new("keys");
    let file = directory.file("key");
    let write = |content: &[u8], mode| {
        let _ = fs::remove_file(&file);
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        read_key(&file).map_err(|error| error.to_string())
    };
    assert!(write(b"00ff\n", 0o600).is_ok());
    assert!(write(b"raw octets", 0o640).is_ok(), "a group may share a key");
    for (content, mode, expected) in [
        (&b"00ff"[..], 0o644, "mode 0644); run chmod o-rw"),
        (b"00ff", 0o602, "mode 0602); run chmod o-rw"),
        (b"", 0o600, "it is empty"),
        (b"\n", 0o600, "it is empty"),
        (b"00f", 0o600, "odd number of hexadecimal digits: 3"),
        (&[b'x'; 4097], 0o600, "exceeds 4096 octets"),
    ] {
        let error = write(content, mode).unwrap_err();
        let name = format!("key file {}: ", file.display());
        assert!(error.starts_with(&name) && error.contains(expected), "{error}");
    }
    drop(directory);
    let error = read_key(&file).unwrap_err().to_string();
    assert!(error.contains("No such file") && error.contains("openssl rand -hex 32"), "{error}");
}

#[test]
fn invalid_sizes_are_refused() {
    let to: SocketAddr = "127.0.0.1:9".parse().unwrap();
    for sizes in [vec![43], vec![44, 65_508], Vec::new()] {
        let error = ping(&PingConfig { sizes, ..config(to, 1) }, &|| false, &mut |_, _| ());
        assert!(error.unwrap_err().to_string().contains("use 44 (a STAMP packet)"));
    }
    let (key, sizes) = (Key::new(b"key"), vec![111]);
    let error = ping(&PingConfig { key, sizes, ..config(to, 1) }, &|| false, &mut |_, _| ());
    assert!(error.unwrap_err().to_string().contains("use 112 (a STAMP packet)"));
}
