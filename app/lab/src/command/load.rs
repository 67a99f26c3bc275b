//! `onbeat load`

mod cpu;
mod net;

use std::time::Duration;

use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt;

use onbeat_terminal::exit::Result;

/// Generate reproducible CPU and network load
///
/// What it did is told at the end. Nothing is left behind, whichever way it ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat load cpu examples/load/paper.toml --for 60s
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

/// Waits for this time or for ever, until it is over or somebody interrupts, which is an end as good as
/// any.
fn wait(length: Option<Duration>, mut over: impl FnMut() -> bool) -> Result<()> {
    /// Between two looks.
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
