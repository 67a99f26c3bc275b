//! Three servers of etcd on the loopback of the management network.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use onbeat_realtime::interrupt::wait_until;

use super::process::{Launcher, Process};
use crate::{Error, Result};

pub(super) const SERVERS: usize = 3;

/// Time for the set-up, and for an election.
const BOUND: Duration = Duration::from_secs(60);

const METRICS_TIMEOUT: Duration = Duration::from_millis(500);

/// Ports of a server: for clients, for servers, for metrics.
fn ports(server: usize) -> [u16; 3] {
    [0, 1, 2].map(|port| 2379 + 10 * server as u16 + port)
}

/// URL of a server for clients.
fn url(server: usize) -> String {
    format!("https://127.0.0.1:{}", ports(server)[0])
}

/// Fails if etcd is not installed.
pub(super) fn require_etcd() -> Result<()> {
    match Command::new("etcd").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(Error::NotInstalled { program: "etcd", remedy: "apt-get install etcd-server" })
        }
    }
}

/// Numbers of requests by method.
pub(super) type Requests = BTreeMap<String, u64>;

/// The servers. One that is not running was killed by a fault.
#[derive(Debug)]
pub(super) struct Etcd {
    servers: [Option<Process>; SERVERS],
}

impl Etcd {
    /// Creates the keys of a fleet, starts the servers with its certificates, and sets up users and roles.
    pub(super) fn start(launcher: &Launcher) -> Result<Self> {
        let keys = launcher.at("keys").display().to_string();
        let urls: Vec<String> = (0..SERVERS).map(url).collect();
        let mut init = vec!["init", "--fleet", &keys];
        init.extend(urls.iter().flat_map(|url| ["--etcd", url]));
        launcher.run(&init)?;
        let mut etcd = Self { servers: [const { None }; SERVERS] };
        for server in 0..SERVERS {
            etcd.restart(launcher, server)?;
        }
        let (mut is_set_up, mut output) = (false, String::new());
        wait_until(BOUND, || match launcher.run(&init) {
            Ok((code, text)) => {
                (is_set_up, output) = (code == 0, text);
                is_set_up
            }
            // A cluster without a leader yet, or an interruption.
            Err(error) => {
                output = error.to_string();
                matches!(error, Error::Interrupted(_))
            }
        })?;
        if is_set_up {
            Ok(etcd)
        } else {
            Err(Error::Invalid(format!("etcd is not set up: {output}")))
        }
    }

    /// Starts a server that is not running.
    pub(super) fn restart(&mut self, launcher: &Launcher, server: usize) -> Result<()> {
        let name = format!("etcd{server}");
        let peer = |server| format!("http://127.0.0.1:{}", ports(server)[1]);
        let cluster: Vec<String> =
            (0..SERVERS).map(|server| format!("etcd{server}={}", peer(server))).collect();
        let mut command = launcher.program(Path::new("etcd"), &format!("{name}.log"))?;
        command.args(["--name", &name]).arg("--data-dir").arg(launcher.at(&name));
        let metrics = format!("http://127.0.0.1:{}", ports(server)[2]);
        for (option, value) in [
            ("--listen-client-urls", &url(server)),
            ("--advertise-client-urls", &url(server)),
            ("--listen-peer-urls", &peer(server)),
            ("--initial-advertise-peer-urls", &peer(server)),
            ("--initial-cluster", &cluster.join(",")),
            ("--listen-metrics-urls", &metrics),
        ] {
            command.args([option, value]);
        }
        let certificates = launcher.at("keys/servers/127.0.0.1");
        for (option, file) in [
            ("--trusted-ca-file", "ca.pem"),
            ("--cert-file", "server.pem"),
            ("--key-file", "server.key"),
        ] {
            command.arg(option).arg(certificates.join(file));
        }
        command.arg("--client-cert-auth");
        self.servers[server] = Some(Process::start(&name, &mut command)?);
        Ok(())
    }

    /// Waits until there is a leader; returns it.
    pub(super) fn leader(&self, launcher: &Launcher) -> Result<usize> {
        let mut leader = None;
        wait_until(BOUND, || {
            let running = (0..SERVERS).filter(|server| self.servers[*server].is_some());
            leader = running.into_iter().find(|server| {
                let metrics = launcher.namespace().run(|| metrics(ports(*server)[2]));
                let metrics = metrics.ok().flatten();
                metrics.is_some_and(|text| text.contains("\netcd_server_is_leader 1"))
            });
            leader.is_some()
        })?;
        leader.ok_or_else(|| Error::Timeout {
            what: "an election of etcd".into(),
            seconds: BOUND.as_secs_f64(),
        })
    }

    pub(super) fn kill(&mut self, server: usize) {
        self.servers[server] = None;
    }

    pub(super) fn signal(&self, server: usize, signal: Signal) -> Result<()> {
        self.servers[server].as_ref().map_or(Ok(()), |process| process.signal(signal))
    }

    /// Kills all servers.
    pub(super) fn kill_all(&mut self) {
        self.servers = [const { None }; SERVERS];
    }

    /// Starts all servers again.
    pub(super) fn restart_all(&mut self, launcher: &Launcher) -> Result<()> {
        (0..SERVERS).try_for_each(|server| self.restart(launcher, server))
    }

    /// Requests of clients since the servers have started, by method.
    pub(super) fn requests(&self, launcher: &Launcher) -> Requests {
        let mut requests = Requests::new();
        for server in 0..SERVERS {
            let text = launcher.namespace().run(|| metrics(ports(server)[2])).ok().flatten();
            for (method, count) in
                text.iter().flat_map(|text| text.lines()).filter_map(request_count)
            {
                *requests.entry(method).or_default() += count;
            }
        }
        requests
    }

    /// Resident memory of each server in octets.
    pub(super) fn resident(&self) -> Result<Vec<f64>> {
        let running = self.servers.iter().flatten();
        running.map(|server| server.resident().map(|octets| octets as f64)).collect()
    }
}

/// Method and number of requests in a line of the metrics, unless there are none.
fn request_count(line: &str) -> Option<(String, u64)> {
    let (labels, value) = line.strip_prefix("grpc_server_started_total{")?.split_once("} ")?;
    let method = labels.split(',').find_map(|label| label.strip_prefix("grpc_method="))?;
    // Large numbers have an exponent.
    let count = value.parse::<f64>().ok().filter(|count| *count > 0.0)?;
    Some((method.trim_matches('"').to_owned(), count as u64))
}

/// The metrics of a server; `None`: it does not respond.
fn metrics(port: u16) -> Option<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, METRICS_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(METRICS_TIMEOUT)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_from_metrics() {
        let line = "grpc_server_started_total{grpc_method=\"Txn\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"} 42";
        assert_eq!(request_count(line), Some(("Txn".into(), 42)));
        assert_eq!(request_count(&line.replace("42", "1.5e+06")), Some(("Txn".into(), 1_500_000)));
        assert_eq!(request_count(&line.replace("42", "0")), None);
        assert_eq!(request_count("# HELP grpc_server_started_total ..."), None);
    }
}
