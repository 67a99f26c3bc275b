//! `onbeat bench frer`

use clap::Arg;
use onbeat_lab::bench::{self, Functions, Options, Source};
use onbeat_node::config::Backend;

use super::{ResultOptions, listed, refuse, with_default};
use onbeat_terminal::exit::Result;
use onbeat_terminal::values::one_of;

/// Measure FRER relative to plain forwarding of the same frames
///
/// Compares each data plane in the same run with forwarding at the minimum overhead. For FRER in XDP, that is plain
/// XDP redirection. For FRER in user space, it is a bare forwarder over the same packet or AF_XDP sockets.
/// Results are frames per second and nanoseconds per frame. Results for XDP include the one-way delay
/// with and without FRER, on an idle machine and with a CPU hog on the same core. With xdp and packet, the throughput of
/// TCP between two PRP nodes is compared with the same forwarding in both directions.
#[derive(Debug, clap::Args)]
#[command(mut_args(with_usual))]
#[command(after_help = "\
Examples:
  onbeat bench frer
  onbeat bench frer --json > frer.json
  onbeat bench frer --backend xdp,packet,xsk --streams 1,10000,65536 --json > frer.json
  onbeat bench frer --streams 1,4096 --rounds 7 --html frer.html
  onbeat bench frer --source socket --streams 1 --rounds 3
  onbeat bench frer --source kernel --streams 1 --functions vlan,individual
  onbeat bench frer --backend packet,xsk --streams 1 --offer 200000

Exit status: 0 all checks hold, 1 a check failed (measured values are invalid), 2 error (root is required).")]
pub(super) struct Frer {
    #[command(flatten)]
    shown: ResultOptions,
    /// Data planes to measure: programs in the kernel (xdp), threads over packet sockets (packet) or
    /// AF_XDP sockets (xsk)
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = one_of(Backend::ALL))]
    #[arg(default_value = "xdp")]
    backend: Vec<Backend>,
    /// Source of the frames of throughput measurements: a talker's packet socket, as in an end system, or
    /// its kernel, the cheapest source [default: both]. FRER in user space always uses the socket
    #[arg(long, value_name = "SOURCE", value_parser = ["socket", "kernel", "both"])]
    source: Option<String>,
    /// Numbers of streams
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    streams: Vec<u32>,
    /// Number of repetitions of each throughput measurement, with each source
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,
    /// Further functions of the nodes: A changes the VLAN of each frame, and B restores it (vlan); B's members have
    /// individual recovery (individual) [default: none]. For FRER in XDP
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = ["vlan", "individual"])]
    functions: Vec<String>,
    /// Frame size of throughput measurements in octets, with VLAN tag, without FCS
    #[arg(long, value_name = "OCTETS")]
    size: Option<usize>,
    /// Number of frames of each delay measurement
    #[arg(long, value_name = "NUMBER")]
    probes: Option<u64>,
    /// CPU to measure on [default: the last CPU]
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// Number of CPUs that process frames in XDP at the same time, 1 or 2. With 2, the throughput of both is compared
    /// with that of one
    #[arg(long, value_name = "NUMBER")]
    cpus: Option<u32>,
    /// Frames per second that another CPU offers to nodes in user space. Delivered frames count: the nodes lose the
    /// others [default: the source shares the CPU of the nodes, and waits for them]
    #[arg(long, value_name = "RATE")]
    offer: Option<u64>,
}

/// Adds the default to the help of an option.
fn with_usual(option: Arg) -> Arg {
    let usual = Options::default();
    let value = match option.get_id().as_str() {
        "streams" => listed(usual.streams),
        "rounds" => usual.rounds.to_string(),
        "size" => usual.frame_octets.to_string(),
        "probes" => usual.probes.to_string(),
        "cpus" => usual.cpus.to_string(),
        _ => return option,
    };
    with_default(option, value)
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
        refuse("--cpus", self.cpus.is_some(), in_kernel, "--backend xdp")?;
        refuse("--functions", !self.functions.is_empty(), in_kernel, "--backend xdp")?;
        refuse("--probes", self.probes.is_some(), in_kernel, "--backend xdp")?;
        let in_user_space = self.backend.iter().any(|backend| backend.is_user_space());
        let part = "--backend packet or xsk";
        refuse("--offer", self.offer.is_some(), in_user_space, part)?;
        Ok(Options {
            backends: self.backend.clone(),
            sources: match self.source.as_deref() {
                Some("socket") => vec![Source::Socket],
                Some("kernel") => vec![Source::Kernel],
                _ => usual.sources,
            },
            streams: if self.streams.is_empty() { usual.streams } else { self.streams.clone() },
            functions: Functions {
                vlan: self.functions.iter().any(|name| name == "vlan"),
                individual: self.functions.iter().any(|name| name == "individual"),
            },
            rounds: self.rounds.unwrap_or(usual.rounds),
            frame_octets: self.size.unwrap_or(usual.frame_octets),
            probes: self.probes.unwrap_or(usual.probes),
            cpu: self.cpu,
            cpus: self.cpus.unwrap_or(usual.cpus),
            offered: self.offer,
            ..usual
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::command::bench::{Arguments, Bench};
    use crate::command::{Command, parse};

    #[test]
    fn options_of_xdp_are_rejected_without_it() {
        for (line, accepted) in [
            ("--source kernel --probes 9", true),
            ("--backend packet,xdp --source socket --probes 9", true),
            ("--backend packet --streams 1", true),
            ("--backend packet --source kernel", false),
            ("--backend packet,xsk --probes 9", false),
            ("--backend packet,xdp --offer 200000", true),
            ("--offer 200000", false),
            ("--functions vlan,individual", true),
            ("--backend packet --functions vlan", false),
            ("--cpus 2", true),
            ("--backend packet --cpus 2", false),
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
