//! Options of a run, and which of them a scenario has.

use std::path::PathBuf;
use std::time::Duration;

use onbeat_frer::dataplane::Backend;

use super::Scenario;
use crate::{Error, Result};

/// An option that some scenarios have and others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// [`Options::backend`].
    Backend,
    /// [`Options::seed`].
    Seed,
    /// [`Options::rate`].
    Rate,
    /// [`Options::size`].
    Size,
    /// [`Options::seconds`].
    Seconds,
    /// [`Options::cuts`].
    Cuts,
    /// [`Options::probes`].
    Probes,
    /// [`Options::nodes`].
    Nodes,
    /// [`Options::cycle`].
    Cycle,
    /// [`Options::streams`].
    Streams,
    /// [`Options::minutes`].
    Minutes,
    /// [`Options::scale`].
    Scale,
    /// [`Options::captures`].
    Captures,
}

impl Parameter {
    /// All of them.
    pub const ALL: [Parameter; 13] = [
        Parameter::Backend,
        Parameter::Seed,
        Parameter::Rate,
        Parameter::Size,
        Parameter::Seconds,
        Parameter::Cuts,
        Parameter::Probes,
        Parameter::Nodes,
        Parameter::Cycle,
        Parameter::Streams,
        Parameter::Minutes,
        Parameter::Scale,
        Parameter::Captures,
    ];

    /// Its name on the command line, without the dashes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Parameter::Backend => "backend",
            Parameter::Seed => "seed",
            Parameter::Rate => "rate",
            Parameter::Size => "size",
            Parameter::Seconds => "seconds",
            Parameter::Cuts => "cuts",
            Parameter::Probes => "probes",
            Parameter::Nodes => "nodes",
            Parameter::Cycle => "cycle",
            Parameter::Streams => "streams",
            Parameter::Minutes => "minutes",
            Parameter::Scale => "scale",
            Parameter::Captures => "captures",
        }
    }
}

/// How a scenario runs. The scenario chooses the value of an option that is `None`.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program that nodes run: `onbeat`.
    pub onbeat_bin: PathBuf,
    /// Where to write the report.
    pub html: Option<PathBuf>,
    /// Standard output is for JSON: the drawing goes to standard error.
    pub json: bool,
    /// No drawing, no progress.
    pub quiet: bool,
    /// The drawing has ANSI colors.
    pub colours: bool,
    /// The data plane of the nodes.
    pub backend: Option<Backend>,
    /// Start value of the random choices: the same seed, the same choices.
    pub seed: Option<u64>,
    /// Frames per second of each stream.
    pub rate: Option<u64>,
    /// Octets of a frame, Ethernet header and tags included, FCS not.
    pub size: Option<usize>,
    /// Length of a phase, in seconds.
    pub seconds: Option<f64>,
    /// Number of cuts, where a link is cut again and again.
    pub cuts: Option<u32>,
    /// Round trips measured of each row, under each load.
    pub probes: Option<u64>,
    /// Controlled nodes of a POWERLINK network.
    pub nodes: Option<u8>,
    /// Cycle of a POWERLINK network.
    pub cycle: Option<Duration>,
    /// Streams of a node.
    pub streams: Option<u32>,
    /// Length of the run, in minutes.
    pub minutes: Option<f64>,
    /// Length of the run, as a share of the paper's experiment.
    pub scale: Option<f64>,
    /// Directory for the captures of networks in which a rule was broken.
    pub captures: Option<PathBuf>,
}

impl Options {
    /// The scenario chooses everything.
    #[must_use]
    pub fn new(onbeat_bin: impl Into<PathBuf>) -> Self {
        Self {
            onbeat_bin: onbeat_bin.into(),
            html: None,
            json: false,
            quiet: false,
            colours: false,
            backend: None,
            seed: None,
            rate: None,
            size: None,
            seconds: None,
            cuts: None,
            probes: None,
            nodes: None,
            cycle: None,
            streams: None,
            minutes: None,
            scale: None,
            captures: None,
        }
    }

    /// Whether the caller chose a value.
    fn sets(&self, parameter: Parameter) -> bool {
        match parameter {
            Parameter::Backend => self.backend.is_some(),
            Parameter::Seed => self.seed.is_some(),
            Parameter::Rate => self.rate.is_some(),
            Parameter::Size => self.size.is_some(),
            Parameter::Seconds => self.seconds.is_some(),
            Parameter::Cuts => self.cuts.is_some(),
            Parameter::Probes => self.probes.is_some(),
            Parameter::Nodes => self.nodes.is_some(),
            Parameter::Cycle => self.cycle.is_some(),
            Parameter::Streams => self.streams.is_some(),
            Parameter::Minutes => self.minutes.is_some(),
            Parameter::Scale => self.scale.is_some(),
            Parameter::Captures => self.captures.is_some(),
        }
    }
}

impl Scenario {
    /// Refuses options that the scenario does not have: it would ignore them.
    ///
    /// # Errors
    /// [`Error::NoSuchOption`].
    pub fn check(&self, options: &Options) -> Result<()> {
        let names = |parameters: &mut dyn Iterator<Item = Parameter>| {
            parameters.map(|parameter| format!("--{}", parameter.name())).collect::<Vec<_>>()
        };
        let mut surplus = Parameter::ALL
            .into_iter()
            .filter(|parameter| options.sets(*parameter) && !self.parameters.contains(parameter));
        let options = names(&mut surplus);
        if options.is_empty() {
            return Ok(());
        }
        let known = names(&mut self.parameters.iter().copied());
        Err(Error::NoSuchOption { scenario: self.name, options, known })
    }
}
