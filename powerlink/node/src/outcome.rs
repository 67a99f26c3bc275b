//! What a node did, as a result.

use onbeat_report::{Cell, Check, Counters, Outcome, format};

use crate::{Runner, Simulation, Station};

impl<S: Station> Runner<S> {
    /// Adds what the node did to a result: the bus as it saw it, what happened to it, its values, what
    /// its port counted. That it ends in the state that it is to get to is a check.
    ///
    /// # Errors
    /// The port does not tell what it counted.
    pub fn tell(
        &mut self,
        simulation: &Simulation,
        outcome: &mut Outcome,
    ) -> onbeat_link::Result<()> {
        let goal = self.station().goal();
        let there = u64::from(self.station().state() == goal);
        outcome.check(Check::eq(format!("in {goal} at the end"), there, 1_u64, ""));
        self.bus().figures(outcome);
        if let Some((first_ns, _)) = self.events().next() {
            let mut table = Counters::new([("at", "s"), ("what", "")]);
            for (at_ns, event) in self.events() {
                let at_s = at_ns.saturating_sub(first_ns) as f64 / 1e9;
                table.row([Cell::from(at_s), S::words(event).into()]);
            }
            outcome.figure("events", table);
        }
        let mut table = Counters::new(["node", "value", "object", "", "last", "changes"]);
        for told in simulation.told() {
            table.row([
                Cell::from(told.of.to_string()),
                told.name.into(),
                told.object.to_string().into(),
                if told.given { "given" } else { "received" }.into(),
                told.value.into(),
                told.changes.map_or_else(|| "".into(), Cell::from),
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
        ];
        outcome.figure("port", Counters::named(["port", "frames"], frames));
        if let Some(others) = self.virtual_ethernet() {
            let passed = others.passed();
            let mut table = Counters::new(["virtual Ethernet", "address", "frames", ""]);
            for (name, count) in [
                ("from the host to the bus", passed.from_host),
                ("from the bus to the host", passed.to_host),
                ("could not be passed on", passed.dropped),
            ] {
                let address = others.address().to_string();
                table.row([Cell::from(others.name()), address.into(), count.into(), name.into()]);
            }
            outcome.figure("virtual Ethernet", table);
        }
        outcome.conditions.mode = Some(self.backend().to_string());
        if let Some(store) = self.store() {
            outcome.note(store.words());
        }
        if self.answers_automatically() {
            let backend = self.backend();
            outcome.note(format!(
                "polls are answered by the back end {backend}, without this process"
            ));
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
