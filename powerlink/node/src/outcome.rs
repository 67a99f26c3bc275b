//! The result of a node.

use onbeat_powerlink::mn::BootRecord;
use onbeat_powerlink::nmt::State;
use onbeat_report::{Cell, Check, Counters, Outcome, format};

use crate::{Runner, Simulation, Station};

impl<S: Station> Runner<S> {
    /// Adds the run of a node to a result: the bus in its view, its events, its values, the counters of its
    /// port. Checks are that it ends in its target state, and that every node of a managing node has reached
    /// OPERATIONAL.
    ///
    /// # Errors
    /// The port reports no counters.
    pub fn report(
        &mut self,
        simulation: &Simulation,
        outcome: &mut Outcome,
    ) -> onbeat_link::Result<()> {
        let goal = self.station().goal();
        let there = u64::from(self.station().state() == goal);
        outcome.check(Check::eq(format!("in {goal} at the end"), there, 1_u64, ""));
        let boots = self.station().boots();
        // Without a managed network no node has a state to reach.
        if goal == State::Operational && !boots.is_empty() {
            for BootRecord { node, operational, .. } in &boots {
                let reached = u64::from(*operational > 0);
                outcome.check(Check::eq(format!("node {node} reached {goal}"), reached, 1_u64, ""));
            }
            outcome.figure("boot", boot_table(&boots));
        }
        let foreign = self.station().foreign_frames();
        if foreign > 0 {
            let frames = format::count(foreign, "frame");
            outcome.note(format!("{frames} of another managing node ignored"));
        }
        self.bus().figures(outcome);
        let lateness = self.lateness();
        if !lateness.series.is_empty() {
            outcome.figure("lateness", lateness);
        }
        if let Some((first_ns, _)) = self.events().next() {
            let mut table = Counters::new([("time", "s"), ("event", "")]);
            for (at_ns, event) in self.events() {
                let at_s = at_ns.saturating_sub(first_ns) as f64 / 1e9;
                table.row([Cell::from(at_s), S::description(event).into()]);
            }
            outcome.figure("events", table);
        }
        let mut table = Counters::new(["node", "value", "object", "", "last", "changes"]);
        for value in simulation.reports() {
            table.row([
                Cell::from(value.of.to_string()),
                value.name.into(),
                value.object.to_string().into(),
                if value.given { "given" } else { "received" }.into(),
                value.value.into(),
                value.changes.map_or_else(|| "".into(), Cell::from),
            ]);
        }
        if !table.rows.is_empty() {
            outcome.figure("values", table);
        }
        let (counts, port) = (self.counts(), self.diagnostics()?);
        let frames = [
            ("sent", port.sent),
            ("not sent", counts.not_sent + port.send_failures),
            ("received", port.received),
            ("received, and no room for them", port.receive_drops),
            ("SoC sent by the port", counts.launched),
            ("polls answered by the port", counts.answered),
            ("polls answered by this process", counts.responses),
            ("late requests not answered", counts.late),
        ];
        outcome.figure("port", Counters::named(["port", "frames"], frames));
        if let Some(others) = self.virtual_ethernet() {
            let passed = others.passed();
            let mut table = Counters::new(["virtual Ethernet", "address", "frames", ""]);
            for (name, count) in [
                ("from the host to the bus", passed.from_host),
                ("from the bus to the host", passed.to_host),
                ("dropped", passed.dropped),
            ] {
                let address = others.address().to_string();
                table.row([Cell::from(others.name()), address.into(), count.into(), name.into()]);
            }
            outcome.figure("virtual Ethernet", table);
        }
        outcome.conditions.mode = Some(self.backend().to_string());
        if let Some(store) = self.store() {
            outcome.note(store.description());
        }
        if self.answers_automatically() {
            let backend = self.backend();
            outcome.note(match (counts.answered, counts.responses) {
                (_, 0) => {
                    format!("polls are answered by the back end {backend}, without this process")
                }
                (0, _) => format!(
                    "polls are answered by this process: the back end {backend} could not; the log has the reason"
                ),
                (_, some) => format!(
                    "polls are answered by the back end {backend}, except {some} by this process, which the back \
                     end could not answer"
                ),
            });
        }
        if self.launches_automatically() {
            let backend = self.backend();
            outcome
                .note(format!("SoC are sent by the back end {backend}, at the instant they carry"));
        }
        outcome.note(format!(
            "{}; {} by the process",
            self.bus().summary(),
            format::count(counts.turns, "exchange")
        ));
        Ok(())
    }
}

/// The boot of each node of a managing node.
fn boot_table(boots: &[BootRecord]) -> Counters {
    let mut table = Counters::new([
        "node",
        "step",
        "in OPERATIONAL",
        "failures",
        "last failure",
        "skipped objects",
        "foreign frames",
    ]);
    for boot in boots {
        let last_failure = boot.last_failure.map_or_else(String::new, |last| last.to_string());
        table.row([
            Cell::from(boot.node.to_string()),
            boot.step.to_string().into(),
            boot.operational.into(),
            boot.failures.into(),
            last_failure.into(),
            (boot.skipped as u64).into(),
            boot.foreign.into(),
        ]);
    }
    table
}
