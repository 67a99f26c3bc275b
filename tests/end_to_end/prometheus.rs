//! A Prometheus that scrapes an exporter or files for the textfile collector, the alerts of packaging/prometheus and the
//! queries of packaging/grafana.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::common::wait_for;
use onbeat_testing::{TemporaryDirectory, require_that, root};
use serde_json::Value;

/// A process that is stopped with the test.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Head and body of a page.
pub(crate) fn get(address: SocketAddr, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    // Of HTTP/1.0, so that the body is sent as it is.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    response.split_once("\r\n\r\n").map(|(head, body)| (format!("{head}\r\n"), body.to_owned()))
}

pub(crate) fn has_prometheus() -> bool {
    let runs = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    let tools = ["promtool", "prometheus"].into_iter().all(runs);
    require_that(tools, "promtool and prometheus (apt-get install prometheus)")
}

/// Serves files of metrics as node_exporter does, until the process ends.
pub(crate) fn serve_files(files: Vec<PathBuf>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // The whole request, since unread octets would reset the connection.
            let (mut request, mut octets) = (Vec::new(), [0; 4096]);
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut octets) {
                    Ok(read @ 1..) => request.extend_from_slice(&octets[..read]),
                    _ => break,
                }
            }
            let text: String =
                files.iter().map(|file| fs::read_to_string(file).unwrap_or_default()).collect();
            let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n";
            // The client may have gone.
            let _ = stream.write_all(format!("{head}{text}").as_bytes());
        }
    });
    address
}

/// A Prometheus on loopback.
pub(crate) struct Prometheus {
    address: SocketAddr,
    _process: Process,
    _directory: TemporaryDirectory,
}

impl Prometheus {
    /// Scrapes an exporter every second, and evaluates the rules as often.
    pub(crate) fn start(name: &str, exporter: SocketAddr) -> Prometheus {
        let directory = TemporaryDirectory::new(name);
        let rules = root().join("packaging/prometheus/onbeat.rules.yml");
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{rules:?}]\n\
             scrape_configs:\n  - job_name: onbeat\n    static_configs: [{{ targets: [\"{}\"] }}]\n",
            exporter
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
    pub(crate) fn query(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression.bytes().map(|octet| format!("%{octet:02x}")).collect();
        let Some((_, body)) = get(self.address, &format!("/api/v1/query?query={encoded}")) else {
            return Vec::new();
        };
        let response: Value = serde_json::from_str(&body).unwrap_or_default();
        assert_ne!(response["status"], "error", "{expression}: {response}");
        response["data"]["result"].as_array().cloned().unwrap_or_default()
    }

    /// The values of the series of a query.
    pub(crate) fn values(&self, expression: &str) -> Vec<f64> {
        let value = |series: &Value| series["value"][1].as_str()?.parse().ok();
        self.query(expression).iter().filter_map(value).collect()
    }

    /// Whether an alert fires whose series have these labels.
    pub(crate) fn fires(&self, alert: &str, labels: &str) -> bool {
        let alert = format!("ALERTS{{alertname=\"{alert}\",alertstate=\"firing\",{labels}}}");
        !self.query(&alert).is_empty()
    }

    /// Waits for an alert, and prints after how many scrapes with values of `fault`, a range, greater than 0 it fires. The
    /// rules' own tests judge that: Prometheus skips evaluations without a CPU.
    #[track_caller]
    pub(crate) fn await_alert(&self, alert: &str, labels: &str, fault: &str) {
        wait_for(&format!("{alert} fires"), || self.fires(alert, labels));
        let samples = |selector: &str| -> Vec<(f64, f64)> {
            let series = self.query(selector);
            let values = series.iter().flat_map(|series| series["values"].as_array().cloned());
            let sample =
                |sample: Value| Some((sample[0].as_f64()?, sample[1].as_str()?.parse().ok()?));
            values.flatten().filter_map(sample).collect()
        };
        let fired = format!("ALERTS{{alertname=\"{alert}\",alertstate=\"firing\",{labels}}}[1h]");
        let fired = samples(&fired).into_iter().map(|(time, _)| time).fold(f64::MAX, f64::min);
        let faulty =
            samples(fault).into_iter().filter(|(time, value)| *time <= fired && *value > 0.0);
        println!("{alert}: {} scrapes with {fault}", faulty.count());
    }
}

/// The queries of a dashboard, with its variables as Grafana replaces them for "All".
pub(crate) fn dashboard_queries(file: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("packaging/grafana").join(file)).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let expression = |target: &Value| {
        let expression = target["expr"].as_str().expect("a query");
        let variables = ["$node", "$stream", "$device", "$instance", "$by"];
        let replaced = expression.replace("$__rate_interval", "1m");
        variables.iter().fold(replaced, |text, name| text.replace(name, ".*"))
    };
    let queries: Vec<String> = targets.map(expression).collect();
    assert!(queries.len() > 5 && queries.iter().all(|query| !query.contains('$')), "{queries:?}");
    queries
}
