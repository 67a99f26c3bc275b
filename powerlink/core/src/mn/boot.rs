//! The boot of each node to OPERATIONAL, and of the managing node with the mandatory ones (EPSG DS 301, 7.4).

use onbeat_wire::powerlink::{NmtCommandId, NmtState, NodeId};

use super::order::Order;
use super::station::{Signaling, Station};
use super::{Event, Failure, ManagingNode, Step};
use crate::nmt::{MnEvent, State};
use crate::od::profile::startup;
use crate::od::{id, profile};

/// Consecutive answered polls before the network relies on a node.
const CHECK_COMMUNICATION: u32 = 5;

/// Starts all nodes at once.
const START_ALL: Order = Order::plain(NodeId::BROADCAST, NmtCommandId::START_NODE);

impl ManagingNode {
    /// Checks all nodes and the network, once per asynchronous phase.
    pub(super) fn boot(&mut self, now_ns: u64) {
        self.status_over(now_ns);
        self.serve_deadline(now_ns);
        for place in 0..self.stations.len() {
            self.boot_station(now_ns, place);
        }
        if self.state == State::PreOperational1 {
            self.report_missing(now_ns);
        }
        let mandatory = || self.stations.iter().filter(|station| station.settings.mandatory);
        let event = match self.state {
            State::PreOperational1 => {
                let wait_ns = self.microseconds(profile::WAIT_PRE_OPERATIONAL_1_US);
                let waited = now_ns.saturating_sub(self.since_ns) >= wait_ns;
                let configured = mandatory().all(|station| station.step == Step::Configured);
                let may = self.may(startup::NO_AUTO_PRE_OPERATIONAL_2);
                (waited && configured && may).then_some(MnEvent::Configured)
            }
            State::PreOperational2 => {
                let ready = mandatory().all(|station| station.step == Step::Ready);
                let may = self.may(startup::NO_AUTO_READY_TO_OPERATE);
                (ready && may && self.cycles > self.since_cycle).then_some(MnEvent::Ready)
            }
            State::ReadyToOperate => {
                let answers = mandatory().all(|station| station.good_polls >= CHECK_COMMUNICATION);
                let may = self.may(startup::NO_AUTOSTART);
                (answers && may && self.cycles > self.since_cycle).then_some(MnEvent::Communicating)
            }
            _ => None,
        };
        if let Some(event) = event {
            self.nmt(now_ns, event);
        }
        let all = startup::START_ALL | startup::NO_START_NODE;
        if event == Some(MnEvent::Communicating) && self.startup() & all == startup::START_ALL {
            self.commands.push_back(START_ALL);
        }
    }

    /// 0x1F80.
    fn startup(&self) -> u32 {
        self.od.number(profile::STARTUP) as u32
    }

    /// Whether a bit of 0x1F80 is set.
    pub(super) fn starts_up(&self, bit: u32) -> bool {
        self.startup() & bit != 0
    }

    /// Whether the node may enter its next state: if a bit of 0x1F80 requires it, only with the application's
    /// permission.
    fn may(&self, bit: u32) -> bool {
        self.allowed || self.startup() & bit == 0
    }

    /// Reports the mandatory nodes that did not respond in time.
    fn report_missing(&mut self, now_ns: u64) {
        let limit_ns = self.microseconds(profile::PRE_OPERATIONAL_1_TIMEOUT_US);
        let late = limit_ns != 0 && now_ns.saturating_sub(self.since_ns) >= limit_ns;
        if late && !core::mem::replace(&mut self.missing_reported, true) {
            let missing =
                |station: &&Station| station.settings.mandatory && station.step == Step::Identify;
            let missing = self.stations.iter().filter(missing);
            self.events.extend(missing.map(|station| Event::Missing(station.node)));
        }
    }

    fn boot_station(&mut self, now_ns: u64, place: usize) {
        let is_cyclic = self.state.is_polled();
        let operational = self.state == State::Operational;
        let starts =
            self.startup() & startup::NO_START_NODE == 0 && !self.commands.contains(&START_ALL);
        let station = &mut self.stations[place];
        if station.sdo.next_deadline_ns().is_some_and(|deadline| deadline <= now_ns) {
            let done = station.sdo.handle_deadline(now_ns, &mut station.frames);
            if let Some(done) = done {
                return self.sdo_done(now_ns, place, done);
            }
        }
        // A node in the queue for a repeated request is requested once more before it is late.
        let waits = station.step == Step::CheckPreOperational2
            && station.status_due
            && !station.requested_again;
        let late = !waits && station.deadline_ns.is_some_and(|deadline| deadline <= now_ns);
        match station.step {
            Step::Reset if late => self.go(now_ns, place, Step::Identify),
            Step::Configured if is_cyclic => self.go(now_ns, place, Step::CheckPreOperational2),
            Step::Ready
                if operational
                    && starts
                    && station.settings.start
                    && station.good_polls >= CHECK_COMMUNICATION =>
            {
                self.commands.push_back(Order::plain(station.node, NmtCommandId::START_NODE));
                self.go(now_ns, place, Step::Start);
            }
            step if late => self.fail(now_ns, place, Failure::TimeOut(step)),
            _ => {}
        }
    }

    /// Enters a step of a node.
    pub(super) fn go(&mut self, now_ns: u64, place: usize, step: Step) {
        let deadline_ns = (step == Step::Reset).then(|| self.pause_end_ns(now_ns, place));
        let station = &mut self.stations[place];
        station.step = step;
        station.deadline_ns = deadline_ns;
        station.requested_again = false;
        station.unexpected_since_ns = None;
        match step {
            Step::Identify => station.delay_ns = 0,
            Step::Operational => {
                station.operational += 1;
                station.failed_in_succession = 0;
            }
            Step::Configured => station.restored = false,
            Step::CheckPreOperational2 => station.status_due = true,
            Step::Enable => {
                station.polled = true;
                station.good_polls = 0;
                let enable = NmtCommandId::ENABLE_READY_TO_OPERATE;
                self.commands.push_back(Order::plain(station.node, enable));
            }
            Step::Stopped => {
                // It is no longer polled: its state is read by StatusRequest.
                station.polled = false;
                station.status_due = true;
            }
            _ => {}
        }
        self.events.push_back(Event::Node(self.stations[place].node, step));
    }

    /// Starts the time limit of a step when its command or request is sent: a node cannot be late before,
    /// however many others come first.
    pub(super) fn start_limit(&mut self, now_ns: u64, place: usize) {
        let limit_ns = match self.stations[place].step {
            Step::CheckPreOperational2 => self.microseconds(profile::PRE_OPERATIONAL_2_TIMEOUT_US),
            Step::Enable | Step::Start => {
                let limit_ns = self.microseconds(profile::READY_TO_OPERATE_TIMEOUT_US);
                limit_ns.max(self.settle_ns(place))
            }
            _ => return,
        };
        let settle_ns = self.settle_ns(place);
        let station = &mut self.stations[place];
        let deadline_ns = *station.deadline_ns.get_or_insert(now_ns + limit_ns);
        if deadline_ns <= now_ns && !station.requested_again {
            station.requested_again = true;
            station.deadline_ns = Some(now_ns + settle_ns);
        }
    }

    /// The end of the pause after a reset: no request is sent to the node before.
    fn pause_end_ns(&self, now_ns: u64, place: usize) -> u64 {
        now_ns + self.settle_ns(place) + self.stations[place].delay_ns
    }

    /// Handles the state that a node reported: a polled node by its PRes, another one by its StatusResponse.
    pub(super) fn state_reported(&mut self, now_ns: u64, place: usize, state: NmtState) {
        let settle_ns = self.settle_ns(place);
        let station = &mut self.stations[place];
        station.state = state;
        let written = self.od.set_number(id(profile::NODE_STATE, station.node.0), state.0.into());
        debug_assert!(written.is_ok(), "a state is one octet, as its object");
        match (station.step, state) {
            (Step::CheckPreOperational2, NmtState::PRE_OPERATIONAL_2) => {
                self.go(now_ns, place, Step::Enable);
            }
            // Its response may be as old as its last request: its timeout ends this.
            (Step::CheckPreOperational2, _) => station.status_due = true,
            (Step::Enable, NmtState::READY_TO_OPERATE) => self.go(now_ns, place, Step::Ready),
            (Step::Start, NmtState::OPERATIONAL) => self.go(now_ns, place, Step::Operational),
            (Step::Enable, NmtState::PRE_OPERATIONAL_2)
            | (Step::Ready | Step::Start, NmtState::READY_TO_OPERATE)
            | (Step::Operational, NmtState::OPERATIONAL) => station.unexpected_since_ns = None,
            (Step::Enable | Step::Ready | Step::Start | Step::Operational, _) => {
                // One response may be late, or prepared before the last command.
                let since_ns = *station.unexpected_since_ns.get_or_insert(now_ns);
                if now_ns - since_ns >= settle_ns {
                    self.fail(now_ns, place, Failure::State);
                }
            }
            _ => {}
        }
    }

    /// Applies a command of the application or of another node to the nodes that it is for.
    pub(super) fn commanded(&mut self, now_ns: u64, order: &Order) {
        for place in 0..self.stations.len() {
            let station = &mut self.stations[place];
            let Some(command) = order.means(station.node) else { continue };
            match (command, station.step) {
                (NmtCommandId::RESET_NODE | NmtCommandId::SW_RESET, _) => {
                    station.downloaded = false;
                    station.signaling = Signaling::Raise;
                    self.suspend_requests(now_ns, place);
                }
                (NmtCommandId::RESET_COMMUNICATION, _) => {
                    station.downloaded = false;
                    station.signaling = Signaling::Raise;
                    self.suspend_requests(now_ns, place);
                }
                (NmtCommandId::RESET_CONFIGURATION, _) => self.suspend_requests(now_ns, place),
                (NmtCommandId::STOP_NODE, step) if step.is_polled() => {
                    self.go(now_ns, place, Step::Stopped);
                }
                (NmtCommandId::ENTER_PRE_OPERATIONAL_2, step)
                    if step.is_polled() || step == Step::Stopped =>
                {
                    self.go(now_ns, place, Step::CheckPreOperational2);
                }
                (NmtCommandId::START_NODE, Step::Ready) => {
                    self.go(now_ns, place, Step::Start);
                    self.start_limit(now_ns, place);
                }
                (NmtCommandId::START_NODE, Step::Start)
                | (NmtCommandId::ENABLE_READY_TO_OPERATE, Step::Enable) => {
                    self.start_limit(now_ns, place);
                }
                _ => {}
            }
        }
    }

    /// Resets a node after a failure; if it is mandatory, the whole network.
    pub(super) fn fail(&mut self, now_ns: u64, place: usize, failure: Failure) {
        let mandatory = self.stations[place].settings.mandatory;
        let node = self.record_failure(place, failure);
        let goes_on = self.startup() & startup::NO_RETURN != 0;
        if mandatory && self.state.is_polled() && !goes_on {
            return self.nmt(now_ns, MnEvent::Lost);
        }
        self.commands.push_back(Order::reset(node, failure.code()));
        self.suspend_requests(now_ns, place);
    }

    /// Records and reports a failure of a node; returns its id.
    pub(super) fn record_failure(&mut self, place: usize, failure: Failure) -> NodeId {
        let station = &mut self.stations[place];
        let node = station.node;
        self.events.push_back(Event::Failed(node, failure));
        if let Some(wait_ns) = station.record_failure(failure) {
            let failures = station.failed_in_succession;
            self.events.push_back(Event::Delayed { node, failures, wait_ns });
        }
        node
    }

    /// Stops requests to a node while it is reset.
    pub(super) fn suspend_requests(&mut self, now_ns: u64, place: usize) {
        self.reset_station(place);
        if self.stations[place].step == Step::Reset {
            self.stations[place].deadline_ns = Some(self.pause_end_ns(now_ns, place));
        } else {
            self.go(now_ns, place, Step::Reset);
        }
    }
}
