//! Intervals contain the truth in simulated worlds. `make soak SOAK=delay` has more measurements, and larger ones.

mod cells;
mod worlds;

use cells::{Cell, Clocks, WIDEST, measure};
use worlds::{WORLDS, World};

const RUNS: u64 = 200;
/// Two standard deviations of a coverage of 95 % in this number of measurements.
const SLACK: f64 = 0.03;

#[test]
fn intervals_contain_the_truth() {
    for world in WORLDS {
        for n in [1_000, 10_000] {
            for cell in &measure(world, n, RUNS, Clocks::EXACT) {
                let faults = cell.faults(SLACK);
                assert!(faults.is_empty(), "{}, {n}, {}: {faults:?}", world.name(), cell.name());
            }
        }
    }
}

#[test]
fn intervals_contain_the_error_of_coarse_clocks_and_of_losses() {
    let clocks = [
        Clocks { resolution_ns: [1_000, 1_000], ..Clocks::EXACT },
        Clocks { resolution_ns: [1_000_000, 1], ..Clocks::EXACT },
        Clocks { lost: 0.02, ..Clocks::EXACT },
    ];
    for world in [World::Independent, World::Mm1, World::Bounded] {
        for clocks in clocks {
            let cells = measure(world, 10_000, RUNS, clocks);
            for cell in cells.iter().filter(|cell| cell.independent() >= 10.0) {
                assert!(cell.coverage() > 0.93 - SLACK, "{world:?} {clocks:?} {}", cell.name());
                assert!(cell.withheld() < 0.05, "{world:?} {clocks:?} {}", cell.name());
            }
            let width = |cell: &Cell| cell.median_width() / cell.ideal_width();
            // The median of all packets that were sent is that of fewer that arrived.
            let widest = if clocks.lost > 0.0 { 2.0 * WIDEST } else { WIDEST };
            assert!(width(&cells[1]) < widest, "{world:?} {clocks:?} {}", width(&cells[1]));
        }
    }
}

#[test]
fn bounds_of_one_in_all_packets_contain_the_truth() {
    let clocks = Clocks { bounds: true, ..Clocks::EXACT };
    for world in [World::Independent, World::Mg1, World::Bounded] {
        let bounds = measure(world, 100_000, 25, clocks).pop().unwrap();
        let faults = bounds.faults(0.06);
        assert!(faults.is_empty(), "{}: {faults:?}", world.name());
        assert!(bounds.withheld() < 0.2, "{}: {}", world.name(), bounds.withheld());
    }
}
