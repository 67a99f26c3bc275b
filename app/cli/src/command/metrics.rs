//! `onbeat metrics`

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use onbeat_node::metrics::{
    Collector, HostNames, LiveCollector, MetricsServer, NodeReading, Page, exposition,
    inherited_listener,
};
use onbeat_report::metrics::MetricsFile;

use onbeat_terminal::exit::{CommandResult, Failure, Result};
use onbeat_terminal::output;

/// Serve metrics of all nodes for Prometheus, and a live page for browsers
///
/// Reads the nodes by their sockets for readers, so the caller must be in their group (onbeat), and need not
/// be root. Sums of all streams are always there. A stream has metrics of its own if its name matches
/// --stream, or if it was in trouble within the last hour. onbeat_streams_hidden counts the others. The page is at /, and shows
/// each node with its ports, its streams, their paths, and its events.
///
/// The connection is neither encrypted nor authenticated: for other hosts, use a reverse proxy, or
/// --listen on a network of your own. Started by a socket unit of systemd, the command serves its socket.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat metrics
  onbeat metrics --listen 192.0.2.1:10126 --host box1.plant.example
  onbeat metrics --stream 'axis-*'
  onbeat metrics --textfile /var/lib/prometheus/node-exporter/onbeat.prom

Exit status: 0 success, 1 a node did not answer (--textfile), 2 error.")]
pub(crate) struct Arguments {
    /// Address and port to listen on; port 0: any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10126")]
    listen: SocketAddr,
    /// Permit this host name in requests, beside addresses and localhost (repeatable)
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Add metrics of streams whose names match: * matches any characters, ? one (repeatable)
    #[arg(long, value_name = "PATTERN")]
    stream: Vec<String>,
    /// Maximum number of streams per node with metrics of their own
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=10_000))]
    max_streams: u32,
    /// Write the metrics into this file once, for the textfile collector of node_exporter, and exit
    #[arg(long, value_name = "FILE.prom", conflicts_with_all = ["listen", "host"])]
    textfile: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        let collector = Collector::new(self.stream, self.max_streams);
        if let Some(file) = self.textfile {
            let file = MetricsFile::new(file)?;
            let nodes = collector.collect();
            file.replace(&exposition(&nodes))?;
            let silent: Vec<_> = nodes.iter().filter_map(complaint).collect();
            silent.iter().for_each(|complaint| tracing::warn!("{complaint}"));
            return Ok(CommandResult::good_if(silent.is_empty()));
        }
        let listener = match inherited_listener()? {
            Some(listener) => listener,
            None => {
                let listener = TcpListener::bind(self.listen).map_err(|error| {
                    let address = self.listen;
                    Failure::new(format!(
                        "cannot listen on {address}: {error}; select another address with --listen"
                    ))
                })?;
                output::print(&format!("http://{}/metrics\n", listener.local_addr()?))?;
                listener
            }
        };
        let mut complaints = Vec::new();
        let mut live = LiveCollector::new();
        let page = move |page| {
            if page == Page::Events {
                return live.event();
            }
            let nodes = collector.collect();
            let now: Vec<String> = nodes.iter().filter_map(complaint).collect();
            // Once, not at each scrape.
            for complaint in now.iter().filter(|complaint| !complaints.contains(*complaint)) {
                tracing::warn!("{complaint}");
            }
            complaints = now;
            exposition(&nodes)
        };
        match MetricsServer::new(listener, HostNames::new(self.host), page)?.run()? {}
    }
}

/// Why a node has no metrics.
fn complaint((node, summary): &NodeReading) -> Option<String> {
    summary.as_ref().err().map(|error| format!("node {node:?}: {error}"))
}
