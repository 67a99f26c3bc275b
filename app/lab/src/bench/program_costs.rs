//! Run time of BPF programs, counted in a round of its own, as counting has a cost.

use onbeat_bpf::Runs;
use onbeat_report::{Cell, Counters};

/// Run time of programs, and the number of packets meanwhile.
#[derive(Debug)]
pub(super) struct ProgramCosts {
    programs: Vec<(String, Runs)>,
    packets: u64,
}

impl ProgramCosts {
    /// Computes the costs from the run times before and after these packets.
    pub(super) fn between(
        before: Vec<(String, Runs)>,
        after: Vec<(String, Runs)>,
        packets: u64,
    ) -> Self {
        let pairs = after.into_iter().zip(before);
        let programs = pairs.map(|((name, now), (_, then))| (name, now.since(then))).collect();
        Self { programs, packets }
    }

    /// A table of the programs that ran: time per run and per packet.
    pub(super) fn table(&self) -> Counters {
        let mut table =
            Counters::new([("program", ""), ("runs", ""), ("per run", "ns"), ("per packet", "ns")]);
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
    fn costs_are_per_run_and_per_packet() {
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
