//! Run time of the nodes' XDP programs, measured in a round of its own, as counting has a cost.

use onbeat_bpf::ProgramInfo;
use onbeat_bpf::Runs;
use onbeat_bpf::statistics::Statistics;
use onbeat_netdev::Handle;

use super::placement::Placement;
use super::rig::{CN, MN};
use super::round::{self, RoundCycles, Row};
use crate::{Error, Result};

const CYCLES: RoundCycles =
    RoundCycles { period_ns: 1_000_000, warm_up: 0, counted: 200, round: 0 };

/// Runs of a program in a number of cycles.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) backend: &'static str,
    pub(super) node: &'static str,
    pub(super) runs: Runs,
    pub(super) cycles: u64,
}

/// Counts runs of the programs on the nodes' interfaces, row by row.
pub(super) fn measure<'r>(
    rows: impl Iterator<Item = &'r mut Row>,
    place: &Placement,
) -> Result<Vec<Program>> {
    let _statistics = Statistics::enable()?;
    let mut found = Vec::new();
    for row in rows {
        let ends =
            [("managing node", on(&row.rig.mn, MN)?), ("controlled node", on(&row.rig.cn, CN)?)];
        let programs: Vec<_> = ends
            .into_iter()
            .filter_map(|(node, program)| program.map(|program| (node, program)))
            .collect();
        if programs.is_empty() {
            continue;
        }
        let read = || -> Result<Vec<Runs>> {
            programs.iter().map(|(_, program)| runs(*program)).collect()
        };
        let before = read()?;
        let backend = row.backend.name;
        round::run(&mut [row], CYCLES, place, || ())?;
        for (((node, _), before), after) in programs.iter().zip(before).zip(read()?) {
            let runs = after.since(before);
            if runs.count > 0 {
                found.push(Program { backend, node, runs, cycles: CYCLES.all() });
            }
        }
    }
    Ok(found)
}

/// The XDP program on an interface.
fn on(handle: &Handle, interface: &str) -> Result<Option<u32>> {
    Ok(handle.link(interface)?.xdp_program().map(|program| program.program_id))
}

fn runs(program: u32) -> Result<Runs> {
    let info = ProgramInfo::by_id(program);
    Ok(info
        .map_err(|error| Error::io(format!("read the state of XDP program {program}"), error))?
        .runs)
}
