//! Prints the coverage of intervals in simulated worlds as a table, for `make soak SOAK=delay`: argument 1 is the
//! number of measurements of a cell, argument 2 the maximum number of delays,
//! argument 3 the name of the only world.

mod cells;
mod worlds;

use cells::{Clocks, measure};
use worlds::{WORLDS, World};

const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

fn main() -> std::process::ExitCode {
    let argument = |number| std::env::args().nth(number)?.parse().ok();
    let (runs, largest) = (argument(1).unwrap_or(1_000), argument(2).unwrap_or(u64::MAX));
    println!(
        "| world | delays | statistic | independent on the smaller side | coverage | withheld | width | ideal |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let clocks = Clocks { bounds: true, ..Clocks::EXACT };
    let mut faults = 0;
    let chosen = std::env::args().nth(3);
    let is_chosen = |world: &World| chosen.as_ref().is_none_or(|name| name == world.name());
    for world in WORLDS.into_iter().filter(is_chosen) {
        for n in SIZES.into_iter().filter(|n| *n as u64 <= largest) {
            for cell in measure(world, n, runs, clocks) {
                println!(
                    "| {} | {n} | {} | {:.0} | {:.1} % | {:.1} % | {:.3} us | {:.3} us |",
                    world.name(),
                    cell.name(),
                    cell.independent(),
                    100.0 * cell.coverage(),
                    100.0 * cell.withheld(),
                    cell.median_width() / 1e3,
                    cell.ideal_width() / 1e3,
                );
                for fault in cell.faults(0.0) {
                    faults += 1;
                    eprintln!("{}, {n} delays, {}: {fault}", world.name(), cell.name());
                }
            }
        }
    }
    std::process::ExitCode::from(u8::from(faults > 0))
}
