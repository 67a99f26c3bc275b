//! `onbeat delay hooks`

use std::num::NonZeroU64;
use std::time::Duration;

use onbeat_delay_run::HooksOptions;
use onbeat_terminal::exit::Result;
use onbeat_terminal::values::duration;

use super::options::{Required, Show};

/// Follow every packet through this very host, stage by stage
///
/// From where the driver hands a packet that came by IFACE to the kernel, to where a driver has sent it
/// on, a process has read it, or its answer was sent. Nothing is injected, nothing is patched; what the
/// programs cost a packet is measured and told. What the NIC and the wire take is not seen.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat delay hooks eth0 --out eth1 --for 10s
  onbeat delay hooks eth0 --whole --for 1h --parquet night.parquet
  onbeat delay hooks eth0 --device-stamps --for 10s
  onbeat delay hooks eth0 --count 100000 --html delay.html -- udp and dst port 862

Exit status: 0 success, 1 negative result (too few packets left or were read; the cause is named), 2 \
error (root and Linux 6.3 with BTF are required).")]
pub(super) struct Hooks {
    /// Where packets come in
    #[arg(value_name = "IFACE")]
    arrivals: String,
    /// Where they leave; any interface, without
    #[arg(long = "out", value_name = "IFACE")]
    departures: Option<String>,
    /// Stop after this time; at Ctrl-C, without
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
    /// Stop after so many packets that left or were read
    #[arg(short, long, value_name = "NUMBER")]
    count: Option<NonZeroU64>,
    /// Only the whole time of each packet, to where the driver that sends it begins: no stages, for
    /// about half of what they cost
    #[arg(long)]
    whole: bool,
    /// Begin with a packet when the NIC received it, by the stamps that it is told to give every packet
    #[arg(long)]
    device_stamps: bool,
    #[command(flatten)]
    required: Required,
    #[command(flatten)]
    show: Show,
    /// Only these packets: ip, ip6, arp, udp, tcp, icmp, icmp6, ether proto N, ip proto N,
    /// [src|dst] host ADDRESS, [src|dst] port N, with `and` between them
    #[arg(last = true, value_name = "FILTER")]
    filter: Vec<String>,
}

impl Hooks {
    pub(super) fn execute(self) -> Result {
        let (report, shown) = self.show.split();
        let options = HooksOptions {
            arrivals: self.arrivals,
            departures: self.departures,
            length: self.length,
            count: self.count,
            whole: self.whole,
            device_stamps: self.device_stamps,
            min_matched: self.required.min_matched,
            filter: self.filter,
            report,
        };
        shown.run(|progress| options.run(progress))
    }
}
