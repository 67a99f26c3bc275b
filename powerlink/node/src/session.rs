//! A node of a file from its start to its result.

use std::path::{Path, PathBuf};

use onbeat_link::Backend;
use onbeat_netdev::Namespace;
use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt::{self, Guard};
use onbeat_report::metrics::MetricsFile;
use onbeat_report::{Check, Input, Outcome, Progress, Run};
use onbeat_wire::powerlink::NodeId;

use crate::error::StartError;
use crate::metrics::MetricsWriter;
use crate::progress::StateLog;
use crate::realtime::NodeThread;
use crate::{File, Host, NodeHost, NodePlacement, Project, Runner, Sender, Simulation, Station};

/// A file and the choices that have precedence over it.
#[derive(Debug)]
pub struct Session<'a> {
    /// The network.
    pub file: &'a File,
    /// Its path, for messages.
    pub path: &'a Path,
    /// The interface of the node.
    pub interface: Option<&'a str>,
    /// The back end of its port.
    pub backend: Option<Backend>,
    /// The sender of its responses to polls, or of its SoC.
    pub sender: Option<Sender>,
    /// How long it runs; `None`: until the process is interrupted.
    pub seconds: Option<f64>,
    /// The file that it keeps its metrics in.
    pub metrics: Option<MetricsFile>,
}

/// Errors of a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// An id that no node of the file has.
    #[error("{path}: node {node} not found; nodes here: {ids}", path = path.display())]
    NoNode {
        /// The file.
        path: PathBuf,
        /// The id.
        node: NodeId,
        /// The ids of the file.
        ids: String,
    },
    /// Neither the file nor the caller names an interface.
    #[error(
        "{path}: {table} has no interface; add interface = \"eth1\", or use --interface",
        path = path.display()
    )]
    NoInterface {
        /// The file.
        path: PathBuf,
        /// The node's table in it.
        table: String,
    },
    /// The node's start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The real-time settings of its thread.
    #[error(transparent)]
    Realtime(#[from] onbeat_realtime::Error),
    /// Its port, or the namespace of this process.
    #[error(transparent)]
    Port(#[from] onbeat_link::Error),
    /// The thread that writes its metrics.
    #[error("metrics: thread not started: {0}")]
    Metrics(std::io::Error),
}

impl Session<'_> {
    /// A controlled node of the file.
    ///
    /// # Errors
    /// [`SessionError::NoNode`].
    pub fn node(&self, node: NodeId) -> Result<&NodeHost, SessionError> {
        let stations = self.file.network.nodes.iter().zip(&self.file.nodes);
        let found = stations.clone().find(|(station, _)| station.node == node);
        found.map(|(_, host)| host).ok_or_else(|| {
            let ids: Vec<String> = stations.map(|(station, _)| station.node.to_string()).collect();
            SessionError::NoNode { path: self.path.to_owned(), node, ids: ids.join(", ") }
        })
    }

    /// Runs the managing node with simulated outputs.
    ///
    /// # Errors
    /// [`SessionError`], but for an unknown node.
    pub fn run_managing(&self, progress: &mut Progress) -> Result<Outcome, SessionError> {
        let host = &self.file.managing;
        let sender = self.file.soc.unwrap_or(Sender::of_soc(self.backend(host)));
        let namespace = Namespace::current().map_err(onbeat_link::Error::from)?;
        let place = self.place(&namespace, "[managing]", host, sender)?;
        let runner = self.file.managing(&place)?;
        let simulation = Simulation::managing(self.file);
        let mut outcome =
            self.run("powerlink-mn", place.interface, runner, simulation, progress)?;
        let notes = self.file.project.iter().flat_map(Project::notes);
        notes.for_each(|note| outcome.note(note));
        Ok(outcome)
    }

    /// Runs a controlled node with simulated inputs.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn run_controlled(
        &self,
        node: NodeId,
        progress: &mut Progress,
    ) -> Result<Outcome, SessionError> {
        let NodeHost { host, response, .. } = self.node(node)?;
        let sender = response.unwrap_or(Sender::of_responses(self.backend(host)));
        let namespace = Namespace::current().map_err(onbeat_link::Error::from)?;
        let place = self.place(&namespace, &format!("node {node}"), host, sender)?;
        let runner = self.file.controlled(node, &place)?;
        let simulation = Simulation::controlled(self.file, node);
        self.run("powerlink-cn", place.interface, runner, simulation, progress)
    }

    fn backend(&self, host: &Host) -> Backend {
        self.backend.unwrap_or(host.backend)
    }

    /// `sender`: as in the file; `table`: the node's table in messages.
    fn place<'b>(
        &'b self,
        namespace: &'b Namespace,
        table: &str,
        host: &'b Host,
        sender: Sender,
    ) -> Result<NodePlacement<'b>, SessionError> {
        let interface = self.interface.or(host.interface.as_deref()).ok_or_else(|| {
            SessionError::NoInterface { path: self.path.to_owned(), table: table.to_owned() }
        })?;
        Ok(NodePlacement {
            namespace,
            interface,
            backend: self.backend(host),
            sender: self.sender.unwrap_or(sender),
            virtual_ethernet: host.virtual_ethernet.as_deref(),
        })
    }

    fn run<S: Station>(
        &self,
        name: &str,
        interface: &str,
        mut runner: Runner<S>,
        mut simulation: Simulation,
        progress: &mut Progress,
    ) -> Result<Outcome, SessionError> {
        let run = Run::begin(name);
        self.file.inputs.iter().for_each(|input| run.inputs().add(input.clone()));
        run.inputs().add(Input::interface(interface));
        let _signals = Guard::install();
        let end_ns = self.seconds.map_or(u64::MAX, |seconds| now_ns() + (seconds * 1e9) as u64);
        let mut log = StateLog::default();
        // Before this thread has real-time settings, which another one inherits.
        let metrics = self.metrics.clone().map(MetricsWriter::start).transpose();
        let mut metrics = metrics.map_err(SessionError::Metrics)?;
        let (ran, notes): (_, Vec<String>) = {
            let thread = NodeThread::enter(&self.file.realtime)?;
            let ran = runner.run_observed(
                |station| simulation.turn(station),
                |runner| {
                    log.print(runner, progress);
                    if let Some(metrics) = &mut metrics {
                        metrics.update(now_ns(), runner, interface);
                    }
                    progress.update(|| {
                        let station = runner.station();
                        let node = station.node();
                        format!("node {node} on {interface}: {}; Ctrl-C stops it", station.state())
                    });
                    interrupt::check().is_ok() && now_ns() < end_ns
                },
            );
            (ran, thread.notes().collect())
        };
        log.print(&runner, progress);
        if let Some(metrics) = metrics {
            metrics.finish(&runner, interface);
        }
        progress.clear();
        let mut outcome = run.finish();
        match ran {
            // It cannot go on, and what it observed stays valid.
            Err(error) if error.is_removed() => removed(interface, &error, &mut outcome),
            ran => ran?,
        }
        runner.report(&simulation, &mut outcome)?;
        notes.into_iter().for_each(|note| outcome.note(note));
        Ok(outcome)
    }
}

/// Adds the removal of the node's interface to the result.
fn removed(interface: &str, error: &onbeat_link::Error, outcome: &mut Outcome) {
    outcome.check(Check::eq("interface present at the end", 0_u64, 1_u64, ""));
    outcome.cause(
        "interface removed",
        format!(
            "interface {interface:?} was removed while the node ran ({error}); create it, and start the node again"
        ),
    );
}
