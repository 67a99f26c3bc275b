//! `onbeat bench delay`

use std::path::PathBuf;

use onbeat_lab::bench::single_hop::{self, Options};

use super::{Shown, Slices};
use crate::exit::Result;

/// Delay in a hop: how fast captures are matched and how right, and what the hooks cost a packet
///
/// A pair of captures is made, with packets lost, sent twice, overtaken and alike; matching is held
/// against the truth, and its speed against plain reading of the same files. Packets go through a router
/// with and without the hooks, in turns.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat bench delay
  onbeat bench delay --only matching --packets 1000000 --rounds 3
  onbeat bench delay --only hooks --json > hooks.json

Exit code: 0 every check holds, 1 a check failed (figures never decide), 2 it could not run (the hooks \
need root, and Linux 6.3 with BTF).")]
pub(super) struct Delay {
    #[command(flatten)]
    shown: Shown,
    /// Packets that cross the hop in the captures
    #[arg(long, value_name = "NUMBER")]
    packets: Option<u64>,
    /// Where the captures are put meanwhile, 414 octets for each packet
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    slices: Slices,
    /// Only a part of it
    #[arg(long, value_name = "PART", value_parser = ["matching", "hooks"])]
    only: Option<String>,
}

impl Delay {
    pub(super) fn execute(self) -> Result {
        let usual = Options::default();
        let wanted = |part| self.only.as_ref().is_none_or(|only| only == part);
        let options = Options {
            packets: self.packets.unwrap_or(usual.packets),
            directory: self.directory.clone().unwrap_or(usual.directory),
            rounds: self.slices.rounds.unwrap_or(usual.rounds),
            slice: self.slices.slice.unwrap_or(usual.slice),
            cpu: self.slices.cpu,
            matching: wanted("matching"),
            hooks: wanted("hooks"),
        };
        self.shown.run(|progress| single_hop::run(&options, progress))
    }
}
