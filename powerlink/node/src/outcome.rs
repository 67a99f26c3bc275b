//! The result of a node.

use std::fmt::Write as _;

use onbeat_link::Diagnostics;
use onbeat_powerlink::mn::{BootRecord, Step};
use onbeat_powerlink::nmt::State;
use onbeat_report::{Cell, Check, Counters, Outcome, format};
use onbeat_wire::powerlink::NodeId;

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
        self.causes(&boots, outcome);
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
        let port = match self.diagnostics() {
            // The session reports it.
            Err(error) if error.is_removed() => Diagnostics::default(),
            port => port?,
        };
        let counts = self.counts();
        let frames = [
            ("sent", port.sent),
            ("not sent", counts.not_sent + port.send_failures),
            ("received", port.received),
            ("received, and no room for them", port.receive_drops),
            ("SoC sent by the port", counts.launched),
            ("polls answered by the port", counts.answered),
            ("polls answered by this process", counts.responses),
            ("late requests not answered", self.late_requests()),
            ("SoC skipped after an exceeded cycle", self.skipped_cycles()),
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
            others.removal().into_iter().for_each(|note| outcome.note(note));
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

    /// Adds the reasons why nodes are not in their target state: of this node, and of each node of a managing node.
    fn causes(&self, boots: &[BootRecord], outcome: &mut Outcome) {
        let (station, goal) = (self.station(), self.station().goal());
        let (node, state) = (station.node(), station.state());
        if state != goal {
            let changes = self.events().map(|(_, event)| event);
            let changes: Vec<_> =
                changes.filter(|event| S::state_change(event).is_some()).collect();
            let mut statement = format!("node {node} is in {state}, not in {goal}");
            if let Some((last, before)) = changes.split_last() {
                let _ = write!(statement, "; last change: {}", S::description(last));
                let setback = before.iter().rfind(|event| {
                    S::state_change(event)
                        .is_some_and(|(from, to)| from.is_polled() && !to.is_polled())
                });
                if let Some(setback) = setback {
                    let _ = write!(statement, ", after {}", S::description(setback));
                }
            }
            if let Some(missing) = missing(node, state) {
                let _ = write!(statement, "; {missing}");
            }
            outcome.cause(NOT_IN_TARGET_STATE, statement);
        }
        // Before that, and in BASIC_ETHERNET, it sends no requests.
        if !state.answers() {
            return;
        }
        for boot in boots {
            let is_there = boot.step == Step::Operational;
            if boot.operational == 0 || state != goal && !is_there {
                outcome.cause(NOT_IN_TARGET_STATE, boot_obstacle(boot));
            }
        }
    }
}

/// The name of the causes.
const NOT_IN_TARGET_STATE: &str = "node not in its target state";

/// The event that a node waits for in a state, and where to look for its cause.
fn missing(node: NodeId, state: State) -> Option<&'static str> {
    Some(match (node.is_managing(), state) {
        (true, State::NotActive) => {
            "it listens for another managing node first, and stays there while it receives its frames"
        }
        (true, State::PreOperational1) => "not all mandatory nodes are configured",
        (true, State::PreOperational2) => "not all mandatory nodes are in READY_TO_OPERATE",
        (true, State::ReadyToOperate) => "not all mandatory nodes respond to polls",
        (false, State::NotActive | State::BasicEthernet) => {
            "no SoC or SoA since then; check the cable, and that the managing node runs"
        }
        (false, State::PreOperational1) => {
            "no SoC since then; the result of the managing node has the cause"
        }
        (false, State::PreOperational2) => {
            "no NMTEnableReadyToOperate since then; the result of the managing node has the cause"
        }
        (false, State::ReadyToOperate) => {
            "no NMTStartNode since then; the result of the managing node has the cause"
        }
        _ => return None,
    })
}

/// The step that a node did not complete, and the cause.
fn boot_obstacle(boot: &BootRecord) -> String {
    let BootRecord { node, step, failures, last_failure, .. } = boot;
    let mut text = format!("node {node} is in step \"{step}\"");
    if let Some(failure) = last_failure {
        let times = format::count(*failures, "failure");
        let _ = write!(text, "; {times}, the last: {failure}");
    }
    if *step == Step::Identify {
        text.push_str("; no IdentResponse: check that it runs, its id and its cable");
    }
    text
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
