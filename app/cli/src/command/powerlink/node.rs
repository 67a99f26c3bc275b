//! `onbeat powerlink mn` and `cn`

use std::path::PathBuf;

use onbeat_link::Backend;
use onbeat_powerlink_node::{File, Sender, Session, SessionError};
use onbeat_report::{Outcome, Progress};
use onbeat_wire::powerlink::NodeId;

use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::{Answer, Failure, Result, warn_of_refusal};
use onbeat_terminal::output;

/// Run the managing node of a network, with simulated outputs
///
/// It boots the network that FILE describes (docs/reference/powerlink.md), configures its nodes, polls them in
/// each cycle, and goes on until Ctrl-C. Then it tells every change of a state, the cycle's jitter and
/// each node's response time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink mn bus.toml
  onbeat powerlink mn bus.toml --interface eth1 --seconds 10 --json

Exit status: 0 the node was in OPERATIONAL when it stopped (with basic-ethernet in BASIC_ETHERNET), 1 it was \
not, 2 error.")]
pub(super) struct Managing {
    /// Who sends SoC: automatic (the back end, at a launch time or by a timer of the kernel; txtime and
    /// module can) or process; without it, as the file has it, else automatic where the back end can
    #[arg(long, value_name = "WHO", value_parser = sender)]
    soc: Option<Sender>,
    #[command(flatten)]
    options: Options,
}

/// Run a controlled node of a network, with simulated inputs
///
/// It waits for a managing node, any that follows EPSG DS 301, and goes on until Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat powerlink cn bus.toml --node 1
  onbeat powerlink cn bus.toml --node 2 --interface eth1 --backend xsk
  onbeat powerlink cn bus.toml --node 2 --backend xdp --response automatic

Exit status: 0 the node was in OPERATIONAL when it stopped, 1 it was not, 2 error.")]
pub(super) struct Controlled {
    /// Which node of the file
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u8).range(1..=239))]
    node: u8,
    /// Who answers its polls: automatic (the back end, in the driver or the kernel; xdp and module can)
    /// or process; without it, as the file has it, else automatic where the back end can
    #[arg(long, value_name = "WHO", value_parser = sender)]
    response: Option<Sender>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
struct Options {
    /// The network
    file: PathBuf,
    /// Where the node runs; without it, as the file has it
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// What moves its frames: packet, xsk, xdp, txtime, module; without it, as the file has it
    #[arg(long, value_name = "NAME")]
    backend: Option<Backend>,
    /// Only say whether the file can be used
    #[arg(long)]
    check: bool,
    /// Run for so long; without it, until Ctrl-C
    #[arg(long, value_name = "NUMBER")]
    seconds: Option<f64>,
    #[command(flatten)]
    shown: ResultOptions,
}

fn sender(name: &str) -> std::result::Result<Sender, String> {
    let known = Sender::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, sender)| *sender).ok_or_else(|| "there are: process, automatic".to_owned())
}

impl Managing {
    pub(super) fn execute(self) -> Result {
        let file = self.options.load()?;
        let session = self.options.session(&file, self.soc);
        self.options.run(|progress| session.run_managing(progress))
    }
}

impl Controlled {
    pub(super) fn execute(self) -> Result {
        let file = self.options.load()?;
        let session = self.options.session(&file, self.response);
        let node = NodeId(self.node);
        session.node(node)?;
        self.options.run(|progress| session.run_controlled(node, progress))
    }
}

impl Options {
    /// Reads the file. What another user could have written is only checked.
    fn load(&self) -> Result<File> {
        let file = File::load(&self.file)?;
        match &file.untrusted {
            Some(refusal) if self.check => warn_of_refusal(refusal),
            Some(refusal) => return Err(refusal.clone().into()),
            None => {}
        }
        Ok(file)
    }

    fn session<'a>(&'a self, file: &'a File, sender: Option<Sender>) -> Session<'a> {
        Session {
            file,
            path: &self.file,
            interface: self.interface.as_deref(),
            backend: self.backend,
            sender,
            seconds: self.seconds,
        }
    }

    /// Runs a node to its end and shows the result, unless the file is only checked.
    fn run(
        &self,
        session: impl FnOnce(&mut Progress) -> std::result::Result<Outcome, SessionError>,
    ) -> Result {
        if self.check {
            output::print(&format!("{}: can be used\n", self.file.display()))?;
            return Ok(Answer::Good);
        }
        self.shown.check()?;
        if self.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds < 1e9)) {
            return Err(Failure::new("--seconds: give a time above 0, such as 10"));
        }
        let mut progress = Progress::new(self.shown.quiet);
        self.shown.show(session(&mut progress)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{Command, parse};

    #[test]
    fn a_controlled_node_is_one_of_the_file() {
        for line in [
            "mn a.toml --seconds 1 --json",
            "cn a.toml --node 239 --backend xdp --check",
            "cn a.toml --node 1 --response automatic",
        ] {
            let parsed = parse(&format!("powerlink {line}"));
            assert!(matches!(parsed, Ok(Command::Powerlink(_))), "{line}: {parsed:?}");
        }
        for line in [
            "cn a.toml",
            "cn a.toml --node 240",
            "mn a.toml --backend xpd",
            "mn",
            "cn a.toml --node 1 --response never",
        ] {
            assert!(parse(&format!("powerlink {line}")).is_err(), "{line}");
        }
    }
}
