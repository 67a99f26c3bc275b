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
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::common::{
    CommandOutput, Flow, GROUP, PORTS, TemporaryFile, VLAN, build, can_run, eliminate_to,
    make_executable, port, program, replicate, run, show, start, stream, two_paths, wait_for,
};
use crate::ptp::{Ptp4l, has_ptp4l};
use onbeat_lab::World;
use onbeat_lab::fault::Impairment;
use onbeat_lab::world::CutEnds;
use onbeat_netdev::Ethtool;
use onbeat_testing::{TemporaryDirectory, command, require_that, root};
use serde_json::Value;

const RATE: u64 = 1000;
/// A user and group of any Debian, which have no rights.
const UNPRIVILEGED: u32 = 65534;

/// Replicas that may be missing or in flight.
const DIFFERENCE: u64 = 1000;

/// A process that is stopped with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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

/// Head and body of a page.
fn get(address: SocketAddr, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    // Of HTTP/1.0, so that the body is sent as it is.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    response.split_once("\r\n\r\n").map(|(head, body)| (format!("{head}\r\n"), body.to_owned()))
}

/// The value of a series, by its text.
#[track_caller]
fn value(page: &str, series: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no {series} in:\n{page}"));
    line.parse().unwrap_or_else(|error| panic!("{series} {line}: {error}"))
}

fn has_prometheus() -> bool {
    let runs = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    let tools = ["promtool", "prometheus"].into_iter().all(runs);
    require_that(tools, "promtool and prometheus (apt-get install prometheus)")
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

    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    let mut promtool = promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let judged: CommandOutput = promtool.wait_with_output().unwrap().into();
    assert_eq!((judged.code, judged.out.as_str(), judged.err.as_str()), (0, "", ""), "{page}");

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

/// A Prometheus on loopback.
struct Prometheus {
    address: SocketAddr,
    _process: Process,
    _directory: TemporaryDirectory,
}

impl Prometheus {
    /// Scrapes the exporter every second, and evaluates the rules as often.
    fn start(name: &str, exporter: &Exporter) -> Prometheus {
        let directory = TemporaryDirectory::new(name);
        let rules = root().join("packaging/prometheus/onbeat.rules.yml");
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{rules:?}]\n\
             scrape_configs:\n  - job_name: onbeat\n    static_configs: [{{ targets: [\"{}\"] }}]\n",
            exporter.address
        );
        fs::write(directory.file("prometheus.yml"), config).unwrap();
        // Free a moment ago.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", directory.file("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", directory.file("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        let log = fs::File::create(directory.file("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = Process(command.spawn().expect("prometheus starts"));
        let prometheus = Prometheus { address, _process: process, _directory: directory };
        wait_for("Prometheus scrapes", || !prometheus.query("up == 1").is_empty());
        prometheus
    }

    /// The series of a query.
    fn query(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression.bytes().map(|octet| format!("%{octet:02x}")).collect();
        let Some((_, body)) = get(self.address, &format!("/api/v1/query?query={encoded}")) else {
            return Vec::new();
        };
        let response: Value = serde_json::from_str(&body).unwrap_or_default();
        assert_ne!(response["status"], "error", "{expression}: {response}");
        response["data"]["result"].as_array().cloned().unwrap_or_default()
    }

    /// The values of the series of a query.
    fn values(&self, expression: &str) -> Vec<f64> {
        let value = |series: &Value| series["value"][1].as_str()?.parse().ok();
        self.query(expression).iter().filter_map(value).collect()
    }

    fn fires(&self, alert: &str, node: &str) -> bool {
        let alert =
            format!("ALERTS{{alertname=\"{alert}\",alertstate=\"firing\",node=\"{node}\"}}");
        !self.query(&alert).is_empty()
    }

    /// Waits for an alert, and prints after how many scrapes with values of `fault`, a range, greater than 0 it fires. The
    /// rules' own tests judge that: Prometheus skips evaluations without a CPU.
    #[track_caller]
    fn await_alert(&self, alert: &str, fault: &str) {
        wait_for(&format!("{alert} fires"), || self.fires(alert, "b"));
        let samples = |selector: &str| -> Vec<(f64, f64)> {
            let series = self.query(selector);
            let values = series.iter().flat_map(|series| series["values"].as_array().cloned());
            let sample =
                |sample: Value| Some((sample[0].as_f64()?, sample[1].as_str()?.parse().ok()?));
            values.flatten().filter_map(sample).collect()
        };
        let fired = format!("ALERTS{{alertname=\"{alert}\",alertstate=\"firing\",node=\"b\"}}[1h]");
        let fired = samples(&fired).into_iter().map(|(time, _)| time).fold(f64::MAX, f64::min);
        let faulty =
            samples(fault).into_iter().filter(|(time, value)| *time <= fired && *value > 0.0);
        println!("{alert}: {} scrapes with {fault}", faulty.count());
    }
}

/// The queries of the dashboard, with its variables as Grafana replaces them for "All".
fn dashboard_queries() -> Vec<String> {
    let text = fs::read_to_string(root().join("packaging/grafana/onbeat.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let expression = |target: &Value| {
        let expression = target["expr"].as_str().expect("a query");
        let replaced = [("$__rate_interval", "1m"), ("$node", ".*"), ("$stream", ".*")];
        replaced.iter().fold(expression.to_owned(), |text, (from, to)| text.replace(from, to))
    };
    let queries: Vec<String> = targets.map(expression).collect();
    assert!(queries.len() > 15 && queries.iter().all(|query| !query.contains('$')), "{queries:?}");
    queries
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
    let prometheus = Prometheus::start("prometheus-cut", &exporter);
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
    prometheus.await_alert("OnbeatPathLost", &trouble("path_lost"));
    prometheus.await_alert("OnbeatLatentError", &trouble("latent_error"));
    wait_for("OnbeatPortAway fires", || prometheus.fires("OnbeatPortAway", "b"));
    assert!(!prometheus.fires("OnbeatPacketsLost", "b"), "the other path delivers all");
    // The moment at which all panels have data: a stream in trouble, events, losses.
    for query in dashboard_queries().iter().filter(|query| has_ptp || !query.contains("_ptp_")) {
        wait_for(&format!("data of {query}"), || !prometheus.query(query).is_empty());
    }
    world.restore("path2").unwrap();
    wait_for("the end of the alert", || !prometheus.fires("OnbeatPathLost", "b"));
    flow.finish_whole();

    // The interface of the guard goes away.
    assert!(!prometheus.fires("OnbeatGuardDisarmed", "b"));
    world.handle("b").unwrap().delete("host").unwrap();
    prometheus.await_alert("OnbeatGuardDisarmed", "(1 - onbeat_guard_armed{node=\"b\"})[1h:1s]");
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
    let prometheus = Prometheus::start("prometheus-loss", &exporter);
    let flow = Flow::start(&world, ("talker", "listener"), 1, (GROUP, VLAN), RATE, None);
    wait_for("a scrape with the stream", || {
        let passed = prometheus.values("onbeat_recovery_passed_packets_total{node=\"b\"}");
        passed.iter().any(|passed| *passed > 0.0)
    });
    assert!(!prometheus.fires("OnbeatPacketsLost", "b"));
    world.cut("path1", CutEnds::Second).unwrap();
    let lost = "(onbeat_recovery_lost_packets_total{node=\"b\"} \
                - onbeat_recovery_lost_before_first_packets_total{node=\"b\"})[1h:1s]";
    prometheus.await_alert("OnbeatPacketsLost", lost);
    world.cut("path2", CutEnds::Second).unwrap();
    let trouble = "onbeat_streams_in_trouble{node=\"b\",kind=\"all_paths_lost\"}[1h]";
    prometheus.await_alert("OnbeatAllPathsLost", trouble);
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
