//! `onbeat powerlink mn` and `cn`

use std::path::{Path, PathBuf};

use onbeat_delay_run::ClockCondition;
use onbeat_link::Backend;
use onbeat_powerlink_node::{File, Project, Sender, Session, SessionError};
use onbeat_report::format::count;
use onbeat_report::metrics::MetricsFile;
use onbeat_report::{Outcome, Progress};
use onbeat_wire::powerlink::NodeId;

use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::{CommandResult, Failure, Result, warn};
use onbeat_terminal::output;
use onbeat_terminal::values::one_of;

/// Run the managing node of a network, with simulated outputs
///
/// Boots the network of FILE, or of a project (--cdc). Configures its nodes and polls
/// them in each cycle until Ctrl-C. Then prints up to 2,000 state changes, the cycle jitter, and the response time of each
/// node. /usr/share/doc/onbeat/docs/reference/powerlink.md describes the file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink mn bus.toml
  onbeat powerlink mn bus.toml --interface eth1 --seconds 10 --json
  onbeat powerlink mn --cdc output/mnobd.cdc --xap output/xap.xml --interface eth1
  onbeat powerlink mn bus.toml --textfile /var/lib/prometheus/node-exporter/bus.prom

Exit status: 0 the node was in OPERATIONAL (with basic-ethernet: BASIC_ETHERNET) when it stopped, 1 it was \
not, 2 error.")]
pub(super) struct ManagingNodeOptions {
    /// Network file (TOML)
    #[arg(required_unless_present = "cdc")]
    file: Option<PathBuf>,
    /// Project of a configuration tool: the concise DCF of the managing node, instead of the network of FILE
    #[arg(long, value_name = "PATH")]
    cdc: Option<PathBuf>,
    /// Layout of the process image of the project, with the names of its channels
    #[arg(long, value_name = "PATH", requires = "cdc")]
    xap: Option<PathBuf>,
    /// Sender of SoC: this process (process), or the back end, at a launch time or by a kernel timer (automatic).
    /// Only the back ends txtime and module support automatic [default: from the file, else automatic if supported]
    #[arg(long, value_name = "SENDER", value_parser = one_of(Sender::ALL))]
    soc: Option<Sender>,
    #[command(flatten)]
    options: Options,
}

/// Run a controlled node of a network, with simulated inputs
///
/// Waits for a managing node that conforms to EPSG DS 301, and runs until Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink cn bus.toml --node 1
  onbeat powerlink cn bus.toml --node 2 --interface eth1 --backend xsk
  onbeat powerlink cn bus.toml --node 2 --backend xdp --response automatic

Exit status: 0 the node was in OPERATIONAL when it stopped, 1 it was not, 2 error.")]
pub(super) struct ControlledNodeOptions {
    /// Network file (TOML)
    file: PathBuf,
    /// Id of the node in the file
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u8).range(1..=239))]
    node: u8,
    /// Sender of poll responses: this process (process), or the back end, in the driver or kernel (automatic). Only
    /// the back ends xdp and module support automatic [default: from the file, else automatic if supported]
    #[arg(long, value_name = "SENDER", value_parser = one_of(Sender::ALL))]
    response: Option<Sender>,
    #[command(flatten)]
    options: Options,
}

/// Maximum number of causes that are printed on standard error.
const MAX_CAUSES: usize = 10;

#[derive(Debug, clap::Args)]
struct Options {
    /// Interface of the node [default: from the file]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Back end of the port [default: from the file]
    #[arg(long, value_name = "NAME", value_parser = one_of(Backend::ALL))]
    backend: Option<Backend>,
    /// Check the file and exit
    #[arg(long)]
    check: bool,
    /// Run for NUMBER seconds [default: until Ctrl-C]
    #[arg(long, value_name = "NUMBER")]
    seconds: Option<f64>,
    /// Keep metrics of the node in this file, for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE.prom")]
    textfile: Option<PathBuf>,
    #[command(flatten)]
    shown: ResultOptions,
}

impl ManagingNodeOptions {
    pub(super) fn execute(self) -> Result {
        let project = self.cdc.as_deref().map(|cdc| Project::load(cdc, self.xap.as_deref()));
        let file = match (&self.file, project.transpose()?) {
            (Some(path), None) => File::load(path)?,
            (Some(path), Some(project)) => File::load(path)?.with_project(project),
            (None, Some(project)) => File::of_project(project),
            (None, None) => return Err(Failure::new("no network: add its file, or use --cdc")),
        };
        admit(&file)?;
        let path = self.file.as_deref().or(self.cdc.as_deref()).unwrap_or(Path::new(""));
        let session = self.options.session(&file, path, self.soc)?;
        self.options.run(path, |progress| session.run_managing(progress))
    }
}

impl ControlledNodeOptions {
    pub(super) fn execute(self) -> Result {
        let file = File::load(&self.file)?;
        admit(&file)?;
        let session = self.options.session(&file, &self.file, self.response)?;
        let node = NodeId(self.node);
        session.node(node)?;
        if self.options.check {
            file.check_store(node)?;
        }
        self.options.run(&self.file, |progress| session.run_controlled(node, progress))
    }
}

/// Refuses a file that another user could have written.
fn admit(file: &File) -> Result<()> {
    match &file.untrusted {
        Some(refusal) => Err(refusal.clone().into()),
        None => Ok(()),
    }
}

impl Options {
    fn session<'a>(
        &'a self,
        file: &'a File,
        path: &'a Path,
        sender: Option<Sender>,
    ) -> Result<Session<'a>> {
        Ok(Session {
            file,
            path,
            interface: self.interface.as_deref(),
            backend: self.backend,
            sender,
            seconds: self.seconds,
            metrics: self.textfile.clone().map(MetricsFile::new).transpose()?,
        })
    }

    /// Runs a node until it stops and prints the result, or only checks the file.
    fn run(
        &self,
        path: &Path,
        session: impl FnOnce(&mut Progress) -> std::result::Result<Outcome, SessionError>,
    ) -> Result {
        if self.check {
            output::print(&format!("{}: valid\n", path.display()))?;
            return Ok(CommandResult::Success);
        }
        self.shown.check()?;
        if self.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds < 1e9)) {
            return Err(Failure::new("--seconds: use a time above 0, such as 10"));
        }
        let mut progress = Progress::new(self.shown.quiet);
        let clock = ClockCondition::begin();
        let mut outcome = session(&mut progress)?;
        clock.finish(&mut outcome);
        for cause in outcome.causes.iter().take(MAX_CAUSES) {
            warn(&cause.statement);
        }
        if let more @ 1.. = outcome.causes.len().saturating_sub(MAX_CAUSES) {
            warn(format!("{}; the result lists them", count(more as u64, "further cause")));
        }
        self.shown.show(outcome)
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn a_controlled_node_requires_a_file_and_an_id() {
        for line in [
            "mn a.toml --seconds 1 --json",
            "mn --cdc mnobd.cdc --xap xap.xml --interface eth1",
            "mn a.toml --cdc mnobd.cdc",
            "cn a.toml --node 239 --backend xdp --check",
            "cn a.toml --node 1 --response automatic --textfile cn1.prom",
        ] {
            let parsed = parse(&format!("powerlink {line}"));
            assert!(matches!(parsed, Ok(Command::Powerlink(_))), "{line}: {parsed:?}");
        }
        for line in [
            "cn a.toml",
            "cn a.toml --node 240",
            "mn a.toml --backend xpd",
            "mn",
            "mn a.toml --xap xap.xml",
            "cn a.toml --node 1 --response never",
        ] {
            assert!(parse(&format!("powerlink {line}")).is_err(), "{line}");
        }
    }
}
