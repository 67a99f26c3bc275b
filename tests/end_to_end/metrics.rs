//! Metrics of nodes, judged by promtool and by a Prometheus that scrapes them: the exposition, the alerts of
//! packaging/prometheus, and the queries of packaging/grafana.
//!
//! ```text
//!                        path1
//!                      /-------\                     onbeat metrics (unprivileged)
//!   talker eth0 --- [ a ]     [ b ] --- eth0 listener      ^
//!                      \-------/                     Prometheus
//!                        path2
//! ```

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::common::{
    CommandOutput, Flow, GROUP, PORTS, TemporaryFile, VLAN, build, can_run, eliminate_to,
    make_executable, port, program, replicate, run, show, start, stream, two_paths, wait_for,
};
use crate::prometheus::{Process, Prometheus, dashboard_queries, get, has_prometheus};
use crate::ptp::{Ptp4l, has_ptp4l};
use onbeat_lab::World;
use onbeat_lab::fault::Impairment;
use onbeat_lab::world::CutEnds;
use onbeat_netdev::Ethtool;
use onbeat_testing::{TemporaryDirectory, check_metrics, command, require_that, root};
use serde_json::Value;

const RATE: u64 = 1000;
/// A user and group of any Debian, which have no rights.
const UNPRIVILEGED: u32 = 65534;

/// The label of alerts of node b.
const OF_B: &str = "node=\"b\"";

/// Replicas that may be missing or in flight.
const DIFFERENCE: u64 = 1000;

/// `onbeat metrics` of an unprivileged user.
struct Exporter {
    address: SocketAddr,
    _process: Process,
    _program: TemporaryFile,
}

impl Exporter {
    fn start(arguments: &[&str]) -> Exporter {
        let copy = TemporaryFile::new(&format!("metrics-{:?}", std::thread::current().id()));
        make_executable(copy.path(), fs::read(program()).expect("the program"));
        let mut command = command(copy.path());
        command.args(["metrics", "--listen", "127.0.0.1:0"]).args(arguments).current_dir("/");
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
        let process = Process(child);
        let address = line.trim().strip_prefix("http://").and_then(|l| l.strip_suffix("/metrics"));
        let address = address.unwrap_or_else(|| panic!("{line:?}")).parse().expect("an address");
        Exporter { address, _process: process, _program: copy }
    }

    fn scrape(&self) -> String {
        let (head, body) = get(self.address, "/metrics").expect("a response");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        body
    }
}

/// The value of a series, by its text.
#[track_caller]
fn value(page: &str, series: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no {series} in:\n{page}"));
    line.parse().unwrap_or_else(|error| panic!("{series} {line}: {error}"))
}

fn readers(config: String) -> String {
    format!("[node]\nreaders = \"nogroup\"\n{config}")
}

/// The configurations of both nodes.
fn nodes(recover: &str) -> (String, String) {
    let host = format!("tag = \"none\", vlan = {VLAN}");
    let a = readers(format!("{PORTS}{}", replicate("axis", GROUP, VLAN)));
    let b = readers(format!("{PORTS}{}", eliminate_to("axis", GROUP, &host, recover)));
    (a, b)
}

/// Nodes with latent error detection.
fn network() -> World {
    let (a, b) = nodes(&with_latent_error_detection());
    start(&two_paths(&a, &b))
}

fn with_latent_error_detection() -> String {
    format!(
        "{{ history-length = 256, reset-timeout-ms = 0, latent-error = {{ difference = {DIFFERENCE}, paths = 2, \
         period-ms = 20, reset-period-ms = 600000 }} }}"
    )
}

/// The page of people, as a browser shows it after some server-sent events.
#[test]
fn a_browser_shows_nodes_with_their_ports_streams_and_events() {
    if !can_run() {
        return;
    }
    let world = network();
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None);
    flow.advance(200);
    let exporter = Exporter::start(&[]);
    let (head, events) = get(exporter.address, "/events").expect("a response");
    assert!(head.contains("\r\nContent-Type: text/event-stream\r\n"), "{head}");
    let data = events.lines().find_map(|line| line.strip_prefix("data: ")).expect("an event");
    let state: Value = serde_json::from_str(data).expect("JSON");
    let names: Vec<&Value> =
        state["nodes"].as_array().unwrap().iter().map(|node| &node["node"]).collect();
    assert!(["a", "b"].iter().all(|name| names.iter().any(|node| *node == name)), "{names:?}");

    // make setup-release installs it, and not make setup-test.
    let chromium = Command::new("chromium").arg("--version").output();
    if !chromium.is_ok_and(|ran| ran.status.success()) {
        eprintln!("SKIPPED: the page in a browser: no chromium (apt-get install chromium)");
        return;
    }
    let profile = TemporaryDirectory::new("browser");
    let shown = || {
        let mut chromium = Command::new("chromium");
        chromium.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=4000",
        ]);
        chromium.arg("--virtual-time-budget=4000");
        chromium.arg(format!("--user-data-dir={}", profile.path().display()));
        chromium.args(["--dump-dom", &format!("http://{}/", exporter.address)]);
        let ran = chromium.stderr(Stdio::null()).output().expect("chromium");
        let dom = String::from_utf8_lossy(&ran.stdout).into_owned();
        dom.split("<main").nth(1).unwrap_or_default().split("</main>").next().unwrap().to_owned()
    };
    world.cut("path2", CutEnds::Both).expect("a cut");
    wait_for("the trouble in the browser", || {
        let dom = shown();
        ["<h2>b</h2>", "path lost: 1", "path2  DOWN", "<td>axis</td>", "path1 first", " %"]
            .into_iter()
            .all(|text| dom.contains(text))
    });
}

#[test]
fn the_exposition_is_valid_and_has_the_values_of_show() {
    if !can_run() || !has_prometheus() {
        return;
    }
    let mut world = network();
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None);
    flow.advance(200);
    flow.finish_whole();
    let exporter = Exporter::start(&["--stream", "ax*"]);
    let page = exporter.scrape();

    check_metrics(&page);

    for node in ["a", "b"] {
        let status = show(node);
        for name in ["host", "path1", "path2"] {
            let shown = port(&status, name);
            let labels = format!("{{node=\"{node}\",port=\"{name}\",device=\"{name}\"}}");
            for (metric, shown) in [
                ("input_packets_total", shown.input_packets),
                ("output_packets_total", shown.output_packets),
                ("passed_packets_total", shown.passed),
                ("discarded_packets_total", shown.discard),
                ("link_up", 1),
            ] {
                assert_eq!(
                    value(&page, &format!("onbeat_port_{metric}{labels}")),
                    shown,
                    "{metric}"
                );
            }
        }
        assert_eq!(value(&page, &format!("onbeat_up{{node=\"{node}\"}}")), 1);
        assert_eq!(value(&page, &format!("onbeat_streams_hidden{{node=\"{node}\"}}")), 0);
    }
    let counters = stream(&show("b"), "axis").recovery.as_ref().unwrap().counters;
    let passed = value(&page, "onbeat_recovery_passed_packets_total{node=\"b\"}");
    assert_eq!((passed, counters.passed > 200), (counters.passed, true));
    let of_stream = "onbeat_stream_recovery_passed_packets_total{node=\"b\",stream=\"axis\"}";
    assert_eq!(value(&page, of_stream), passed);

    // Sums keep what a removed stream counted; its own metrics go.
    let removed = run(&["stream", "remove", "axis", "--node", "b"]);
    assert_eq!((removed.code, removed.err.as_str()), (0, ""));
    let mut page = String::new();
    // A page is reused for a second.
    wait_for("a page without the stream", || {
        page = exporter.scrape();
        value(&page, "onbeat_streams{node=\"b\"}") == 0
    });
    assert_eq!(value(&page, "onbeat_recovery_passed_packets_total{node=\"b\"}"), passed);
    let input = "onbeat_port_input_packets_total{node=\"b\",port=\"path1\",device=\"path1\"}";
    assert_eq!(value(&page, input), port(&show("b"), "path1").input_packets);
    assert!(value(&page, input) > 200 && !page.contains(of_stream));

    // A file for node_exporter, whole, and readable by others.
    let directory = TemporaryDirectory::new("textfile");
    let file = directory.file("onbeat.prom");
    let ran = run(&["metrics", "--textfile", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(fs::read_to_string(&file).unwrap().contains("onbeat_up{node=\"b\"} 1\n"));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    let refused = run(&["metrics", "--textfile", "/tmp/onbeat.txt"]);
    assert!(refused.code == 2 && refused.err.contains(".prom"), "{}", refused.err);

    world.daemon("b").unwrap().kill().unwrap();
    // Its data plane continues, and its socket stays.
    wait_for("the node is gone", || value(&exporter.scrape(), "onbeat_up{node=\"b\"}") == 0);
    assert_eq!(value(&exporter.scrape(), "onbeat_up{node=\"a\"}"), 1);
    let ran = run(&["metrics", "--textfile", file.to_str().unwrap()]);
    assert!(ran.code == 1 && ran.err.contains("node \"b\": no process listens"), "{}", ran.err);
}

#[test]
fn faults_fire_their_alerts_and_every_query_of_the_dashboard_has_data() {
    if !can_run() || !has_prometheus() {
        return;
    }
    let directory = TemporaryDirectory::new("metrics-ptp4l");
    let (a, b) = nodes(&with_latent_error_detection());
    let socket = directory.file("socket").display().to_string();
    let ptp = format!("[node]\nptp-socket = {socket:?}\n");
    let guard = "[guard]\ninterfaces = [\"host\"]\n";
    let b = format!("{}{guard}", b.replacen("[node]\n", &ptp, 1));
    let mut world = build(&two_paths(&a, &b));
    // A veth has NAPI, which the guard schedules, with GRO or a program.
    let ethtool = Ethtool::in_namespace(world.namespace("b").unwrap()).unwrap();
    ethtool.set_features("host", &[("rx-gro", true)]).unwrap();
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    let has_ptp = require_that(has_ptp4l(), "ptp4l (apt-get install linuxptp)");
    let master = format!("priority1 10\nuds_address {}\n", directory.file("of-a").display());
    let slave = format!("slaveOnly 1\nuds_address {socket}\n");
    let _clocks = has_ptp.then(|| {
        [("a", master), ("b", slave)]
            .map(|(node, more)| Ptp4l::start(&world, (node, "path1"), (&directory, node), &more))
    });
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None);
    let exporter = Exporter::start(&["--stream", "*"]);
    let prometheus = Prometheus::start("prometheus-cut", exporter.address);
    flow.advance(3000);
    wait_for("rates of traffic", || {
        prometheus
            .values("rate(onbeat_recovery_passed_packets_total{node=\"b\"}[1m])")
            .iter()
            .any(|rate| *rate > 0.0)
    });
    // Whether a clock with software time stamps locks depends on the host.
    let alerts = prometheus.query("ALERTS{alertname!=\"OnbeatPtpNotLocked\"}");
    assert!(alerts.is_empty(), "without a fault: {alerts:?}");

    // A cut path: its port, its stream, and the missing replicas.
    world.cut("path2", CutEnds::Second).unwrap();
    let trouble = |kind| format!("onbeat_streams_in_trouble{{node=\"b\",kind=\"{kind}\"}}[1h]");
    prometheus.await_alert("OnbeatPathLost", OF_B, &trouble("path_lost"));
    prometheus.await_alert("OnbeatLatentError", OF_B, &trouble("latent_error"));
    wait_for("OnbeatPortAway fires", || prometheus.fires("OnbeatPortAway", OF_B));
    assert!(!prometheus.fires("OnbeatPacketsLost", OF_B), "the other path delivers all");
    // The moment at which all panels have data: a stream in trouble, events, losses.
    for query in
        dashboard_queries("onbeat.json").iter().filter(|query| has_ptp || !query.contains("_ptp_"))
    {
        wait_for(&format!("data of {query}"), || !prometheus.query(query).is_empty());
    }
    world.restore("path2").unwrap();
    wait_for("the end of the alert", || !prometheus.fires("OnbeatPathLost", OF_B));
    flow.finish_whole();

    // The interface of the guard goes away.
    assert!(!prometheus.fires("OnbeatGuardDisarmed", OF_B));
    world.handle("b").unwrap().delete("host").unwrap();
    prometheus.await_alert(
        "OnbeatGuardDisarmed",
        OF_B,
        "(1 - onbeat_guard_armed{node=\"b\"})[1h:1s]",
    );
}

/// A path loses packets. None is missed until the other path is cut.
#[test]
fn packets_that_arrive_on_no_path_fire_an_alert() {
    if !can_run() || !has_prometheus() {
        return;
    }
    let (a, b) = nodes("{ history-length = 16, reset-timeout-ms = 0 }");
    let mut network = two_paths(&a, &b);
    // The last link is path2.
    network.impaired(Impairment { loss: 0.3, seed: 1, ..Impairment::default() });
    let world = start(&network);
    let exporter = Exporter::start(&[]);
    let prometheus = Prometheus::start("prometheus-loss", exporter.address);
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None);
    wait_for("a scrape with the stream", || {
        let passed = prometheus.values("onbeat_recovery_passed_packets_total{node=\"b\"}");
        passed.iter().any(|passed| *passed > 0.0)
    });
    assert!(!prometheus.fires("OnbeatPacketsLost", OF_B));
    world.cut("path1", CutEnds::Second).unwrap();
    let lost = "(onbeat_recovery_lost_packets_total{node=\"b\"} \
                - onbeat_recovery_lost_before_first_packets_total{node=\"b\"})[1h:1s]";
    prometheus.await_alert("OnbeatPacketsLost", OF_B, lost);
    world.cut("path2", CutEnds::Second).unwrap();
    let trouble = "onbeat_streams_in_trouble{node=\"b\",kind=\"all_paths_lost\"}[1h]";
    prometheus.await_alert("OnbeatAllPathsLost", OF_B, trouble);
    flow.finish();
}

#[test]
fn the_rules_pass_their_unit_tests() {
    if !has_prometheus() {
        return;
    }
    let rules = root().join("packaging/prometheus");
    for arguments in
        [["check", "rules", "onbeat.rules.yml"], ["test", "rules", "onbeat.rules.test.yml"]]
    {
        let mut promtool = Command::new("promtool");
        let output = promtool.args(arguments).current_dir(&rules).output().expect("promtool");
        let judged: CommandOutput = output.into();
        assert_eq!(judged.code, 0, "{arguments:?}: {}{}", judged.out, judged.err);
    }
    // Each alert fires in a test, and has a section of the page of remedies.
    let file = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let text = file("packaging/prometheus/onbeat.rules.yml");
    let alerts = text.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let (tests, page) =
        (file("packaging/prometheus/onbeat.rules.test.yml"), file("docs/how-to/alerts.md"));
    let mut number = 0;
    for alert in alerts {
        assert!(
            tests.contains(&format!("alertname: {alert}\n        exp_alerts:\n          - ")),
            "{alert}"
        );
        assert!(page.contains(&format!("\n## {alert}\n")), "{alert}");
        number += 1;
    }
    assert_eq!(number, page.matches("\n## Onbeat").count());
}
