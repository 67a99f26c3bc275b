//! Delays of the packets of other programs that measure delay, through a router between namespaces.
//!
//! ```text
//!   sender eth0 --- eth0 [ router ] eth1 --- eth0 receiver
//!          |                                 |
//!        tap                               tap
//! ```
//!
//! isochron reads the kernel's stamps of each packet: before the queueing discipline and in the driver of the sender, and at
//! reception. The tap of the sender stamps between the first two, the tap of the receiver has the stamp of reception. So the
//! delay of each packet is bounded from below and above, without a tolerance. FlowPing measures round trips in its process: the
//! round trip at the tap of the sender is shorter, packet by packet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::delay::{Directory, Router, can_capture, packets, result};
use crate::common::process::Process;
use crate::common::wait_for;
use onbeat_netdev::Handle;

/// Variables with the paths of the programs.
pub(crate) const VARIABLES: [&str; 2] = ["ISOCHRON", "FLOWPING"];
const PACKETS: usize = 2000;
const RECEIVER: &str = "10.9.2.2";

pub(crate) fn run([isochron, flowping]: [PathBuf; 2]) {
    assert!(can_capture());
    one_way(&isochron);
    round_trip(&flowping);
}

/// Starts a server of a peer, and waits until it listens.
fn serve(host: &Handle, mut command: Command, filter: &str) -> Process {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    host.namespace().start_in(&mut command);
    let server = Process::spawn(command);
    wait_for("the server of the peer", || {
        let mut ss = Command::new("ss");
        ss.args(["-Hlntu", filter]);
        !host.namespace().start_in(&mut ss).output().expect("ss").stdout.is_empty()
    });
    server
}

/// Runs a client of a peer to its end, and returns its output.
fn ask(host: &Handle, mut command: Command) -> String {
    command.stdin(Stdio::null());
    let ran = host.namespace().start_in(&mut command).output().expect("the peer");
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("text")
}

/// Delays of a CSV file in nanoseconds, in the order of the arrivals.
fn delays_ns(path: &str) -> Vec<i64> {
    let text = fs::read_to_string(path).expect("the delays");
    let mut rows: Vec<(i64, i64)> = Vec::new();
    for line in text.lines().skip(1) {
        let mut cells = line.split(',').map(|cell| cell.parse().ok());
        let cell = cells.next().flatten();
        let (arrival, delay) = (cell.expect("arrival_ns"), cells.next().flatten());
        rows.push((arrival, delay.unwrap_or_else(|| panic!("a lost packet: {line}"))));
    }
    rows.sort_unstable();
    rows.into_iter().map(|(_, delay)| delay).collect()
}

/// Matches the captures, and returns the delays of all packets.
fn matched(directory: &Directory, captures: &[String; 2], options: &[&str]) -> Vec<i64> {
    let csv = directory.path("delays.csv");
    let command = ["delay", "match", &captures[0], &captures[1], "--csv", &csv];
    let (code, found) = result(&[&command, options].concat());
    assert_eq!((code, packets(&found, "lost")), (0, 0), "{found:#}");
    assert_eq!(packets(&found, "matched uniquely"), PACKETS as u64, "{found:#}");
    delays_ns(&csv)
}

fn one_way(isochron: &Path) {
    let (directory, router) = (Directory::new("isochron"), Router::new());
    let mut command = Command::new(isochron);
    command.args(["rcv", "--interface", "eth0", "--l4", "--quiet", "--omit-hwts"]);
    let server = serve(&router.receiver, command, "sport = :5000");
    let stamps = directory.path("isochron.dat");
    let count = PACKETS.to_string();
    let ends = [(&router.sender, "eth0"), (&router.receiver, "eth0")];
    let captures = router.captured_at(&directory, ends, || {
        let mut command = Command::new(isochron);
        command.args(["send", "--interface", "eth0", "--l4", "--ip-destination", RECEIVER]);
        command.args(["--client", RECEIVER, "--cycle-time", "0.0005", "--frame-size", "200"]);
        command.args(["--num-frames", &count, "--output-file", &stamps]);
        command.args(["--omit-sync", "--omit-hwts", "--quiet"]);
        ask(&router.sender, command);
    });
    drop(server);

    let mut report = Command::new(isochron);
    report.args(["report", "--input-file", &stamps]);
    report.args(["--printf-format", "%u %u %u\n", "--printf-args", "str"]);
    let text = String::from_utf8(report.output().expect("isochron").stdout).expect("text");
    let bounds: Vec<[i64; 2]> = text
        .lines()
        .map(|line| {
            let stamps: Vec<i64> = line.split(' ').map(|ns| ns.parse().expect("ns")).collect();
            let [stack, driver, received] = stamps[..] else { panic!("{line}") };
            [received - driver, received - stack]
        })
        .collect();
    let delays = matched(&directory, &captures, &["--filter", "udp and dst port 6000"]);
    assert_eq!(delays.len(), bounds.len());
    for (packet, (delay, [least, most])) in delays.iter().zip(&bounds).enumerate() {
        assert!((least..=most).contains(&delay), "packet {packet}: {least} {delay} {most}");
    }
    let widths: i64 = bounds.iter().map(|[least, most]| most - least).sum();
    println!(
        "isochron: {} delays, each between its bounds, which are {} ns apart on average",
        delays.len(),
        widths / bounds.len() as i64
    );
}

fn round_trip(flowping: &Path) {
    let (directory, router) = (Directory::new("flowping"), Router::new());
    let mut command = Command::new(flowping);
    command.arg("-S");
    let server = serve(&router.receiver, command, "sport = :2424");
    let mut output = String::new();
    let tap = (&router.sender, "eth0");
    let captures = router.captured_at(&directory, [tap, tap], || {
        let mut command = Command::new(flowping);
        let count = PACKETS.to_string();
        command.args(["-h", RECEIVER, "-c", &count, "-i", "0.001", "-s", "64"]);
        output = ask(&router.sender, command);
    });
    drop(server);

    let field = |line: &str, name: &str| -> Option<f64> {
        line.split([' ', ',']).find_map(|word| word.strip_prefix(name)?.parse().ok())
    };
    let mut theirs: Vec<(f64, f64)> = output
        .lines()
        .filter_map(|line| Some((field(line, "seq=")?, field(line, "time=")?)))
        .collect();
    theirs.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The server keeps the first 16 octets of its payload, which contain the client's time; others of 100 octets or less set up
    // the connection.
    let options = ["--reply", "--octets", "44"];
    let filters = ["--filter-in", "udp dst port 2424 and greater 100"];
    let replies = ["--filter-out", "udp src port 2424 and greater 100"];
    let options = [&options[..], &filters, &replies].concat();
    let delays = matched(&directory, &captures, &options);
    assert_eq!(theirs.len(), delays.len(), "{output}");
    let mut outside_ns = 0;
    for ((sequence, ms), delay) in theirs.iter().zip(&delays) {
        // FlowPing prints microseconds.
        let rtt_ns = (ms * 1e6) as i64 + 500;
        assert!(
            *delay <= rtt_ns,
            "packet {sequence}: {delay} ns at the tap, {rtt_ns} ns in the process"
        );
        outside_ns += rtt_ns - delay;
    }
    println!(
        "FlowPing: {} round trips, each longer than at the tap, by {} ns on average",
        delays.len(),
        outside_ns / delays.len() as i64
    );
}
