//! `onbeat delay echo` and `ping`, from one host to another.
//!
//! ```text
//!  sender eth0 192.0.2.1 --- 192.0.2.2 eth0 reflector
//!          | tcpdump
//! ```

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::common::json::{can_validate, cell, validate};
use crate::common::{BOUND, TemporaryFile, can, program, run, run_in, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_testing::require_that;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

const REFLECTOR: &str = "192.0.2.2";

/// Two hosts; the first one sends.
fn hosts() -> [Handle; 2] {
    let namespaces = [Namespace::new().unwrap(), Namespace::new().unwrap()];
    let hosts = [&namespaces[0], &namespaces[1]].map(|one| Handle::in_namespace(one).unwrap());
    let end = || VethEnd::new("eth0");
    hosts[0].create_veth(&end(), &end().namespace(&namespaces[1])).unwrap();
    for (host, last) in hosts.iter().zip(1..) {
        host.add_address("eth0", Ipv4Addr::new(192, 0, 2, last).into(), 24).unwrap();
        host.set_up("eth0").unwrap();
    }
    hosts[0].wait_carrier("eth0", BOUND).unwrap();
    hosts
}

/// A running reflector, killed on drop.
struct Echo {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Echo {
    fn start(namespace: &Namespace, arguments: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.args(["delay", "echo", "--json"]).args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = namespace.start_in(&mut command).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let to_whom = if arguments.contains(&"--key") { "of senders with the key " } else { "" };
        assert!(line.starts_with(&format!("onbeat: reflecting probes {to_whom}on ")), "{line}");
        // Its unit fits its size.
        let error = line.split_once("CLOCK_REALTIME, ±").expect("the error of its clock").1;
        let digits = error.chars().take_while(char::is_ascii_digit).count();
        assert!((1..4).contains(&digits), "{line}");
        Echo { child, said }
    }

    /// Sends SIGINT, and returns the result.
    fn end(mut self) -> Value {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        assert!(self.child.wait().unwrap().success());
        if can_validate() {
            validate(&out);
        }
        serde_json::from_str(&out).unwrap()
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // It has exited already in a successful test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ping(namespace: &Namespace, arguments: &[&str]) -> (i32, Value) {
    let arguments = [&["delay", "ping", REFLECTOR, "--json", "--quiet"], arguments].concat();
    let ran = run_in(namespace, &arguments);
    assert_eq!(ran.err, "", "{arguments:?}");
    if can_validate() {
        validate(&ran.out);
    }
    (ran.code, serde_json::from_str(&ran.out).unwrap())
}

#[test]
fn a_path_between_two_hosts() {
    if !can(&[]) {
        return;
    }
    let [sender, reflector] = hosts();
    let echo = Echo::start(reflector.namespace(), &["--stateful"]);
    let [csv, parquet] = ["probe.csv", "probe.parquet"].map(TemporaryFile::new);
    let options = ["--rate", "1000", "--count", "500", "--size", "44,300", "--timeout", "60s"];
    let files = ["--csv", csv.name(), "--parquet", parquet.name()];
    let (code, found) =
        ping(sender.namespace(), &[&options[..], &["--one-clock"], &files].concat());
    assert_eq!(code, 0, "{found:#}");
    assert_eq!(cell(&found, "probes", "answered", "number"), 500.0);
    assert_eq!(cell(&found, "probes", "lost on the forward path", "number"), 0.0);
    assert_eq!(
        cell(&found, "probes", "departures stamped by the program, not the kernel", "number"),
        0.0
    );
    let mean = |way| cell(&found, "delays by path", way, "mean");
    // With one clock, the parts add up to the whole, independent of machine load.
    let parts = mean("forward") + mean("return");
    assert!((parts - mean("round trip")).abs() <= 1e-6 * parts + 1.0, "{found:#}");
    assert!(mean("round trip, from its scheduled start") >= mean("round trip"));
    assert!(mean("in the reflector") > 0.0);
    assert!(cell(&found, "delays by path", "forward", "±").is_nan(), "one clock");

    let text = fs::read_to_string(csv.path()).unwrap();
    let reader = SerializedFileReader::new(fs::File::open(parquet.path()).unwrap()).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 500);
    assert_eq!(reader.metadata().file_metadata().schema_descr().num_columns(), 8);
    let mut lines = text.lines();
    let headings = "sequence,intended_ns,sent_ns,reflector_received_ns,reflector_sent_ns,received_ns,ttl,handled_ns";
    assert_eq!(lines.next(), Some(headings));
    let rows: Vec<Vec<i64>> =
        lines.map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    assert_eq!(rows.len(), 500);
    for (n, row) in rows.iter().enumerate() {
        assert_eq!((row[0], row[6]), (n as i64, 64));
        assert!(row[1..6].is_sorted(), "intended, sent, there, back again, here: {row:?}");
        assert!(row[7] >= row[5], "handled after its arrival: {row:?}");
    }
    // The application's view, by the times of each probe.
    let mean_of = |from: usize, to: usize| {
        rows.iter().map(|row| row[to] - row[from]).sum::<i64>() as f64 / rows.len() as f64
    };
    assert!((mean("application: round trip") - mean_of(1, 7)).abs() <= 1.0, "{found:#}");
    assert!((mean("application: one way") - mean_of(1, 4)).abs() <= 1.0, "{found:#}");
    let intervals = found["figures"]["intervals by path"]["rows"].as_array().unwrap();
    let means: Vec<_> = intervals.iter().filter(|row| row[1] == "mean").collect();
    assert!(means.len() >= 6, "{intervals:?}");
    for row in intervals {
        let [value, lower, upper] = [2, 3, 4].map(|at| row[at].as_f64());
        assert!(lower <= value && (upper.is_none() || value <= upper), "{row}");
    }

    // Without the information that there is one clock, it estimates the offset: 0, within the bound.
    let (code, found) = ping(sender.namespace(), &options);
    assert_eq!(code, 0, "{found:#}");
    let spans = found["figures"]["clocks"]["rows"].as_array().unwrap();
    assert!(!spans.is_empty(), "{found:#}");
    for span in spans {
        let (offset, bound) = (span[3].as_f64().unwrap(), span[4].as_f64().unwrap());
        assert!(offset.abs() <= bound, "{span}");
    }
    for way in ["forward", "return"] {
        let bound = cell(&found, "delays by path", way, "±");
        let p50 = cell(&found, "delays by path", way, "p50");
        assert!(bound > 0.0 && (p50.is_nan() || p50 > bound), "{found:#}");
    }

    let seen = echo.end();
    assert_eq!(cell(&seen, "datagrams", "answered", "number"), 1000.0);
    assert_eq!(cell(&seen, "datagrams", "sessions started", "number"), 2.0);
}

/// tshark's dissector of TWAMP-Test, whose layout STAMP shares, decodes the packets.
#[test]
fn another_program_decodes_the_packets() {
    if !can(&[]) {
        return;
    }
    let there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !require_that(there("tshark") && there("tcpdump"), "tshark and tcpdump") {
        return;
    }
    let [sender, reflector] = hosts();
    let echo = Echo::start(reflector.namespace(), &[]);
    let [capture, csv] = ["twamp.pcap", "twamp.csv"].map(TemporaryFile::new);
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-i", "eth0", "-n", "-U", "-w", capture.name(), "udp", "port", "862"]);
    tcpdump.stdin(Stdio::null()).stderr(Stdio::null());
    let mut tcpdump = sender.namespace().start_in(&mut tcpdump).spawn().unwrap();
    // The capture is ready when it contains a sent packet.
    wait_for("the tap", || {
        ping(sender.namespace(), &["--count", "1", "--timeout", "60s"]);
        fs::metadata(capture.path()).is_ok_and(|file| file.len() > 100)
    });
    let options = ["--count", "20", "--timeout", "60s", "--csv", csv.name(), "--size", "60"];
    let (code, found) = ping(sender.namespace(), &options);
    assert_eq!(code, 0, "{found:#}");
    let rows: Vec<Vec<i64>> = {
        let text = fs::read_to_string(csv.path()).unwrap();
        let cells = |line: &str| line.split(',').map(|cell| cell.parse().unwrap()).collect();
        text.lines().skip(1).map(cells).collect()
    };

    let fields = [
        "udp.srcport",
        "udp.length",
        "twamp.test.seq_number",
        "twamp.test.timestamp",
        "twamp.test.receive_timestamp",
        "twamp.test.sender_seq_number",
        "twamp.test.sender_timestamp",
        "twamp.test.sender_ttl",
        "twamp.test.error_estimate.multiplier",
    ];
    let read = || -> Vec<Vec<String>> {
        let mut tshark = Command::new("tshark");
        tshark.args(["-r", capture.name(), "-d", "udp.port==862,twamp.test", "-T", "fields"]);
        tshark.args(["-Y", "udp.length == 68"]);
        fields.iter().for_each(|field| _ = tshark.args(["-e", field]));
        let reported = String::from_utf8(tshark.output().unwrap().stdout).unwrap();
        reported.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    };
    wait_for("forty packets in the capture", || read().len() == 40);
    let (tests, answers): (Vec<_>, Vec<_>) =
        read().into_iter().partition(|cells| cells[0] != "862");
    tcpdump.kill().unwrap();
    tcpdump.wait().unwrap();
    assert_eq!((tests.len(), answers.len(), rows.len()), (20, 20, 20));
    for ((test, answer), row) in tests.iter().zip(&answers).zip(&rows) {
        assert_eq!(test[2], row[0].to_string(), "{test:?}");
        assert_eq!((&answer[2], &answer[5]), (&test[2], &test[2]), "{answer:?}");
        assert_eq!(answer[6], test[3], "the sender's stamp is returned");
        assert_eq!(answer[7], "64");
        assert_ne!(answer[8], "0", "an error estimate of 0 is none");
        for (shown, known) in [(&answer[4], row[3]), (&answer[3], row[4])] {
            assert!(apart_ns(shown, known) <= 1, "{shown} {known}");
        }
    }
    drop(echo);
}

/// Difference between the fractions of a second of a time shown by tshark and one in nanoseconds.
fn apart_ns(shown: &str, known_ns: i64) -> i64 {
    let fraction = shown.split('.').nth(1).and_then(|rest| rest.get(..9)).unwrap_or_default();
    let fraction: i64 = fraction.parse().unwrap_or_else(|_| panic!("{shown}"));
    let apart = (fraction - known_ns).rem_euclid(1_000_000_000);
    apart.min(1_000_000_000 - apart)
}

/// A key file; the other end has the key as hexadecimal digits.
fn key_file(name: &str, content: &[u8], mode: u32) -> TemporaryFile {
    let file = TemporaryFile::with(name, content);
    fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
    file
}

/// One end is a program in Python (vectors/stamp/peer), which also sends forged packets.
#[test]
fn authenticated_with_another_implementation() {
    if !can(&[]) {
        return;
    }
    let python = Command::new("python3").arg("--version").output().is_ok();
    if !require_that(python, "python3") {
        return;
    }
    let raw = b"a key of raw octets, \xff and all\n";
    let hex: String = raw.iter().map(|octet| format!("{octet:02x}")).collect();
    let of_raw = key_file("raw", raw, 0o600);
    let of_hex = key_file("hex", format!("{hex}\n").as_bytes(), 0o600);
    let peer = |namespace: &Namespace, arguments: &[&str]| {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/stamp/peer");
        let mut command = Command::new("python3");
        command.arg(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        namespace.start_in(&mut command).spawn().unwrap()
    };
    let [sender, reflector] = hosts();

    let echo = Echo::start(reflector.namespace(), &["--key", of_raw.name(), "--stateful"]);
    let sent = peer(sender.namespace(), &["send", &hex, "20", REFLECTOR]);
    let sent = sent.wait_with_output().unwrap();
    assert!(sent.status.success());
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!(sent["right"], 20);
    let seen = echo.end();
    for (row, expected) in [
        ("received", 60.0),
        ("answered", 20.0),
        ("with a wrong HMAC, not answered", 20.0),
        ("too short for a test packet", 20.0),
        ("sessions started", 1.0),
    ] {
        assert_eq!(cell(&seen, "datagrams", row, "number"), expected, "{row}: {seen:#}");
    }

    let mut answering = peer(reflector.namespace(), &["reflect", &hex, "30"]);
    let mut line = String::new();
    BufReader::new(answering.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let options = ["--key", of_hex.name(), "--count", "30", "--timeout", "60s"];
    let (code, found) = ping(sender.namespace(), &[&options[..], &["--size", "112,300"]].concat());
    assert!(answering.wait().unwrap().success());
    assert_eq!(code, 0, "{found:#}");
    assert_eq!(cell(&found, "probes", "answered", "number"), 30.0, "{found:#}");
    let forged = cell(&found, "probes", "datagrams with a wrong HMAC", "number");
    assert_eq!(forged, 30.0, "{found:#}");
    assert!(found["notes"].to_string().contains("with a wrong HMAC discarded"), "{found:#}");
    assert!(found["notes"].to_string().contains("the HMAC covers"), "{found:#}");
}

/// Both ends are onbeat's; one of them has no key, or another one.
#[test]
fn packets_with_another_key_are_not_answered() {
    if !can(&[]) {
        return;
    }
    let [sender, reflector] = hosts();
    let (right, wrong) =
        (key_file("right", b"00ff00ff", 0o600), key_file("wrong", b"00ff00fe", 0o600));
    let echo = Echo::start(reflector.namespace(), &["--key", right.name()]);
    let ping = |timeout: &str, options: &[&str]| {
        ping(sender.namespace(), &[&["--count", "5", "--timeout", timeout], options].concat())
    };
    let (code, found) = ping("10ms", &["--key", wrong.name()]);
    assert_eq!(code, 1, "{found:#}");
    assert!(found["notes"].to_string().contains("no probe was answered"), "{found:#}");
    let (code, _) = ping("10ms", &[]);
    assert_eq!(code, 1);
    let (code, found) = ping("60s", &["--key", right.name()]);
    assert_eq!(code, 0, "{found:#}");
    let seen = echo.end();
    assert_eq!(cell(&seen, "datagrams", "answered", "number"), 5.0, "{seen:#}");
    assert_eq!(cell(&seen, "datagrams", "with a wrong HMAC, not answered", "number"), 5.0);
    assert_eq!(cell(&seen, "datagrams", "too short for a test packet", "number"), 5.0);

    let open = key_file("open", b"00ff", 0o644);
    for command in [&["delay", "ping", REFLECTOR][..], &["delay", "echo", "--port", "4862"]] {
        let ran = run(&[command, &["--key", open.name()]].concat());
        assert!(ran.code == 2 && ran.err.contains("chmod o-rw"), "{ran:?}");
        let ran = run(&[command, &["--key", "/nonexistent/key"]].concat());
        assert!(ran.code == 2 && ran.err.contains("openssl rand -hex 32"), "{ran:?}");
    }
    let ran = run(&["delay", "ping", REFLECTOR, "--key", right.name(), "--size", "44"]);
    assert!(ran.code == 2 && ran.err.contains("use 112 (a STAMP packet)"), "{ran:?}");
}

#[test]
fn a_missing_reflector_and_invalid_options_are_reported() {
    let ping = |arguments: &[&str]| run(&[&["delay", "ping"], arguments].concat());
    // Port 1 (TCPMUX) is unused by UDP.
    let ran = ping(&["127.0.0.1", "--port", "1", "--count", "3", "--timeout", "10ms", "--quiet"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("no STAMP reflector answered at 127.0.0.1:1"), "{}", ran.out);
    for (arguments, expected) in [
        (vec!["127.0.0.1", "--size", "43"], "use 44 (a STAMP packet)"),
        (vec!["127.0.0.1", "--rate", "0"], "--rate"),
        (vec!["127.0.0.1", "--profile", "10 for ever"], "100..1000 for 10s"),
        (vec!["127.0.0.1", "--source", "::1"], "--source"),
    ] {
        let ran = ping(&arguments);
        assert!(ran.code == 2 && ran.err.contains(expected), "{arguments:?}: {ran:?}");
    }
    let ran = run(&["delay", "echo", "--bind", "203.0.113.1", "--port", "4862"]);
    assert!(ran.code == 2 && ran.err.contains("203.0.113.1:4862"), "{ran:?}");
}
