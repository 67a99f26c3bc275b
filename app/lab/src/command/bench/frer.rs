//! `onbeat bench frer`

use onbeat_lab::bench::{self, Options, Source};
use onbeat_node::config::Backend;

use super::{ResultOptions, refuse};
use onbeat_terminal::exit::Result;

/// FRER beside plain forwarding of the same frames
///
/// Each data plane is held against the least that can be done by the same means in the same run: FRER
/// in XDP against XDP redirection, FRER in user space against a bare forwarder over the same packet
/// or AF_XDP sockets. In frames per second and nanoseconds per frame, and for XDP one-way delay with
/// and without FRER, on an idle machine and with a CPU hog on the same core.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat bench frer
  onbeat bench frer --json > frer.json
  onbeat bench frer --backend xdp,packet,xsk --streams 1,10000,65536 --json > frer.json
  onbeat bench frer --streams 1,4096 --rounds 7 --html frer.html
  onbeat bench frer --source socket --streams 1 --rounds 3

Exit status: 0 all checks hold, 1 a check failed (figures do not count), 2 error (root is required).")]
pub(super) struct Frer {
    #[command(flatten)]
    shown: ResultOptions,
    /// What moves the frames, each beside its own limit: programs in the kernel (xdp), threads over
    /// packet sockets (packet) or AF_XDP sockets (xsk)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(default_value = "xdp")]
    backend: Vec<Backend>,
    /// What sends the frames whose throughput is measured: a talker's packet socket, as in an end
    /// system, or its kernel, at the least cost there is; without it, both; for FRER in user space always
    /// the socket
    #[arg(long, value_name = "SOURCE", value_parser = ["socket", "kernel", "both"])]
    source: Option<String>,
    /// Numbers of streams to measure with
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    streams: Vec<u32>,
    /// How often each throughput is measured, with each source
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,
    /// Octets of a frame whose throughput is measured, VLAN tag included, without FCS
    #[arg(long, value_name = "OCTETS")]
    size: Option<usize>,
    /// Frames whose delay is measured, in each case
    #[arg(long, value_name = "NUMBER")]
    probes: Option<u64>,
    /// The CPU that everything runs on; the last one where it is not said
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

impl Frer {
    pub(super) fn execute(self) -> Result {
        let options = self.options()?;
        self.shown.run(|progress| bench::run_frer(&options, progress))
    }

    fn options(&self) -> Result<Options> {
        let usual = Options::default();
        let in_kernel = self.backend.contains(&Backend::Xdp);
        refuse("--source", self.source.is_some(), in_kernel, "--backend xdp")?;
        refuse("--probes", self.probes.is_some(), in_kernel, "--backend xdp")?;
        Ok(Options {
            backends: self.backend.clone(),
            sources: match self.source.as_deref() {
                Some("socket") => vec![Source::Socket],
                Some("kernel") => vec![Source::Kernel],
                _ => usual.sources,
            },
            streams: if self.streams.is_empty() { usual.streams } else { self.streams.clone() },
            rounds: self.rounds.unwrap_or(usual.rounds),
            frame_octets: self.size.unwrap_or(usual.frame_octets),
            probes: self.probes.unwrap_or(usual.probes),
            cpu: self.cpu,
            ..usual
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::command::bench::{Arguments, Bench};
    use crate::command::{Command, parse};

    #[test]
    fn options_of_xdp_are_refused_without_it() {
        for (line, accepted) in [
            ("--source kernel --probes 9", true),
            ("--backend packet,xdp --source socket --probes 9", true),
            ("--backend packet --streams 1", true),
            ("--backend packet --source kernel", false),
            ("--backend packet,xsk --probes 9", false),
        ] {
            let Ok(Command::Bench(Arguments { command: Bench::Frer(frer) })) =
                parse(&format!("bench frer {line}"))
            else {
                panic!("{line}")
            };
            assert_eq!(frer.options().is_ok(), accepted, "{line}");
        }
    }
}
