//! What BPF programs took while they were counted, in a round of its own: counting costs, too.

use onbeat_bpf::Runs;
use onbeat_report::{Cell, Counters};

/// Programs, and the packets that passed meanwhile.
#[derive(Debug)]
pub(super) struct ProgramCosts {
    programs: Vec<(String, Runs)>,
    packets: u64,
}

impl ProgramCosts {
    /// From what the same programs had taken before and after these packets.
    pub(super) fn between(
        before: Vec<(String, Runs)>,
        after: Vec<(String, Runs)>,
        packets: u64,
    ) -> Self {
        let pairs = after.into_iter().zip(before);
        let programs = pairs.map(|((name, now), (_, then))| (name, now.since(then))).collect();
        Self { programs, packets }
    }

    /// Of those that ran: a run, and what of a packet's time they are.
    pub(super) fn table(&self) -> Counters {
        let mut table = Counters::new([
            ("program", ""),
            ("runs", ""),
            ("of a run", "ns"),
            ("of a packet", "ns"),
        ]);
        for (program, runs) in self.programs.iter().filter(|(_, runs)| runs.count > 0) {
            let time_ns = runs.time_ns as f64;
            table.row([
                Cell::from(program.as_str()),
                runs.count.into(),
                (time_ns / runs.count as f64).into(),
                (time_ns / self.packets.max(1) as f64).into(),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_meanwhile_by_run_and_by_packet() {
        let runs = |count, time_ns| Runs { count, time_ns };
        let programs = |a, b| vec![("a".to_string(), a), ("b".to_string(), b)];
        let counted = ProgramCosts::between(
            programs(runs(10, 1_000), runs(3, 30)),
            programs(runs(30, 5_000), runs(3, 30)),
            8,
        );
        let table = counted.table();
        let row = [Cell::from("a"), 20_u64.into(), 200.0.into(), 500.0.into()];
        assert_eq!(table.rows, [row], "b did not run");
    }
}
