//! The clock of the host, read regularly while ptp4l runs. The daemon never waits for it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onbeat_host::ptp::{History, PtpClient, PtpStatus, Round, SAMPLES, SERVERS};

use crate::config::NodeConfig;

/// Interval of requests.
const INTERVAL: Duration = Duration::from_secs(1);

/// Interval of searches for a ptp4l that does not run.
const SEARCH: Duration = Duration::from_secs(10);

/// Path of the socket for responses of ptp4l, next to a control socket.
pub(super) fn own_socket(control: &Path) -> PathBuf {
    let mut path = control.as_os_str().to_owned();
    path.push(".ptp");
    path.into()
}

fn servers(node: &NodeConfig) -> Vec<PathBuf> {
    node.ptp_socket.clone().map_or_else(|| SERVERS.map(PathBuf::from).to_vec(), |own| vec![own])
}

/// Samples of the clock.
#[derive(Debug)]
pub(super) struct PtpMonitor {
    /// Sockets of ptp4l to try, in this order.
    servers: Vec<PathBuf>,
    /// Path that responses are sent to.
    own: PathBuf,
    client: Option<PtpClient>,
    history: History,
    due: Instant,
    /// Whether ptp4l has a socket, with or without a process.
    exists: bool,
}

impl PtpMonitor {
    /// Creates the samples of a node with this control socket.
    pub(super) fn new(now: Instant, node: &NodeConfig) -> Self {
        let (servers, own) = (servers(node), own_socket(&node.control));
        let history = History::new(SAMPLES);
        Self { servers, own, client: None, history, due: now, exists: false }
    }

    /// Follows a changed configuration.
    pub(super) fn update(&mut self, node: &NodeConfig) {
        if self.servers != servers(node) {
            // The former client removes the socket of the next one.
            self.client = None;
            *self = Self::new(Instant::now(), node);
        }
    }

    /// When to call [`PtpMonitor::poll`].
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Reads what has arrived, and requests the next state.
    pub(super) fn poll(&mut self, now: Instant) {
        if self.due > now {
            return;
        }
        if let Some(client) = &mut self.client {
            let mut round = Round::default();
            client.receive(&mut round);
            self.history.push(round);
        } else {
            let opened = PtpClient::open(self.servers.iter().cloned(), &self.own);
            self.exists = !matches!(opened, Ok(None));
            self.client = opened.ok().flatten();
        }
        let requested = self.client.as_mut().map(PtpClient::request);
        if let Some(Err(error)) = requested {
            tracing::debug!("ptp4l: {error}");
            self.client = None;
            self.history = History::new(SAMPLES);
        }
        self.due = now + if self.client.is_some() { INTERVAL } else { SEARCH };
    }

    /// The clock; none without ptp4l.
    pub(super) fn status(&self) -> Option<PtpStatus> {
        self.exists.then(|| self.history.status_with_clocks())
    }
}
