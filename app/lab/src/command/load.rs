//! `onbeat load`

mod cpu;
mod net;

use std::time::Duration;

use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt;

use onbeat_terminal::exit::Result;

/// Generate reproducible CPU and network load
///
/// Prints a report on exit. Stops all load threads and processes on exit.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat load cpu /usr/share/doc/onbeat/examples/load/paper.toml --for 60s
  onbeat load net 192.0.2.2:9 --rate 10000 --size 1470

Exit status: 0 success, 2 error.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Load,
}

#[derive(Debug, clap::Subcommand)]
enum Load {
    Cpu(cpu::Cpu),
    Net(net::Net),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Load::Cpu(load) => load.execute(),
            Load::Net(load) => load.execute(),
        }
    }
}

/// Waits until `over` returns true, this time has passed, or a signal interrupts, which is a regular
/// end.
fn wait(length: Option<Duration>, mut over: impl FnMut() -> bool) -> Result<()> {
    /// Interval between two checks.
    const LOOK_NS: u64 = 20_000_000;
    let until = length.map_or(u64::MAX, |length| {
        now_ns().saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
    });
    while now_ns() < until && !over() {
        if interrupt::pause_until(until.min(now_ns() + LOOK_NS), || ()).is_err() {
            break;
        }
    }
    Ok(())
}
