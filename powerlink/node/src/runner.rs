//! A node on a port.

use std::collections::VecDeque;

use onbeat_link::{
    Backend, Confirmation, Diagnostics, Outcome, Port, ReceivedFrame, Result, Slot, Time,
};
use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::od::profile;
use onbeat_report::Distribution;
use onbeat_wire::MacAddress;
use onbeat_wire::ethernet::HEADER_LEN;
use onbeat_wire::powerlink::MessageType;

use crate::ahead::ReceivedAhead;
use crate::expected::ExpectedPoll;
use crate::lateness::{self, Lateness};
use crate::launcher::Launcher;
use crate::lead::WakeLead;
use crate::responder::Responder;
use crate::store::Store;
use crate::transmitter::Transmitter;
use crate::virtual_ethernet::VirtualEthernet;
use crate::{Bus, EthernetCounts, Station};

/// Maximum number of recorded events.
const KEPT: usize = 4096;

/// Maximum length of a wait: the interval at which `go_on` is called.
const MAX_WAIT_NS: u64 = 50_000_000;

/// The part of a cycle that a managing node may wait actively for the instant of SoC: one of `SOC_WAIT_SHARE`.
const SOC_WAIT_SHARE: u64 = 10;

/// Counters of a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Turns of the process: one per cycle.
    pub turns: u64,
    /// Frames that the port did not accept: its link was down, or its queue full.
    pub not_sent: u64,
    /// Events dropped for lack of room.
    pub forgotten: u64,
    /// SoC that the port sent.
    pub launched: u64,
    /// Polls that the port answered.
    pub answered: u64,
    /// Responses to polls that this process sent.
    pub responses: u64,
}

/// A node on a port, and its view of the bus, in one thread.
pub struct Runner<S: Station> {
    port: Box<dyn Port>,
    transmitter: Transmitter,
    responder: Option<Responder>,
    launcher: Option<Launcher>,
    others: Option<VirtualEthernet>,
    store: Option<Store>,
    station: S,
    ahead: ReceivedAhead,
    /// Frames sent since the last update of the bus.
    sent: Vec<(u64, Slot, Vec<u8>)>,
    bus: Bus,
    /// Time of the last frame of the bus.
    latest_ns: u64,
    lateness: Lateness,
    /// The instant of a managing node's next SoC.
    soc_ns: u64,
    /// The next poll to a controlled node.
    expected: ExpectedPoll,
    lead: WakeLead,
    events: VecDeque<(u64, S::Event)>,
    counts: Counts,
}

impl<S: Station> Runner<S> {
    /// Runs a node on a port. The node was built with the port's address.
    ///
    /// # Errors
    /// The port has no room for a frame of maximum length, or for the multicast groups of POWERLINK.
    pub fn new(mut port: Box<dyn Port>, station: S) -> Result<Self> {
        for group in S::GROUPS {
            port.add_multicast(*group)?;
        }
        let transmitter = Transmitter::new(&mut *port)?;
        Ok(Runner {
            port,
            transmitter,
            responder: None,
            launcher: None,
            others: None,
            store: None,
            station,
            ahead: ReceivedAhead::new(),
            sent: Vec::with_capacity(8),
            bus: Bus::new(),
            latest_ns: 0,
            lateness: Lateness::new(),
            soc_ns: 0,
            expected: ExpectedPoll::new(),
            lead: WakeLead::new(),
            events: VecDeque::with_capacity(KEPT),
            counts: Counts::default(),
        })
    }

    /// The same for a controlled node whose polls the port answers automatically, whatever the state of this
    /// process. Polls not answered for lack of room in a queue are answered by this process.
    ///
    /// # Errors
    /// As [`Runner::new`]; [`onbeat_link::Error::Unsupported`] if the port does not support automatic
    /// responses.
    pub fn answering(port: Box<dyn Port>, station: S) -> Result<Self> {
        let mut runner = Self::new(port, station)?;
        if let Some(controlled) = runner.station.controlled() {
            controlled.answer_automatically();
            runner.responder = Some(Responder::new(&mut *runner.port)?);
        }
        Ok(runner)
    }

    /// The same for a managing node whose SoC the port sends, at their launch times.
    ///
    /// # Errors
    /// As [`Runner::new`]; [`onbeat_link::Error::Unsupported`] if the port does not support launch times.
    pub fn launching(port: Box<dyn Port>, station: S) -> Result<Self> {
        let mut runner = Self::new(port, station)?;
        if let Some(managing) = runner.station.managing() {
            managing.launch_cycles();
            runner.launcher = Some(Launcher::new(&mut *runner.port)?);
        }
        Ok(runner)
    }

    /// Whether the port sends SoC.
    pub fn launches_automatically(&self) -> bool {
        self.launcher.is_some()
    }

    /// Whether the port answers polls.
    pub fn answers_automatically(&self) -> bool {
        self.responder.is_some()
    }

    /// Connects the host to the IP network of the bus.
    pub(crate) fn attach(&mut self, others: VirtualEthernet) {
        self.station.serve_datagrams();
        self.others = Some(others);
    }

    /// Sets the storage of the node's parameters.
    pub(crate) fn set_store(&mut self, store: Store) {
        self.store = Some(store);
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    pub(crate) fn virtual_ethernet(&self) -> Option<&VirtualEthernet> {
        self.others.as_ref()
    }

    /// Counters of the virtual Ethernet, if the node has one.
    pub fn passed(&self) -> Option<EthernetCounts> {
        self.others.as_ref().map(VirtualEthernet::passed)
    }

    /// The source address of its frames.
    pub fn mac_address(&self) -> MacAddress {
        self.port.mac_address()
    }

    /// The node.
    pub fn station(&self) -> &S {
        &self.station
    }

    /// The bus in the view of the node: the frames it receives and sends.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Events of the node except those of every cycle, with times of the port's clock.
    pub fn events(&self) -> impl Iterator<Item = (u64, &S::Event)> {
        self.events.iter().map(|(time_ns, event)| (*time_ns, event))
    }

    /// The number of events, of which the last are recorded.
    pub(crate) fn event_count(&self) -> u64 {
        self.counts.forgotten + self.events.len() as u64
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Requests that a controlled node did not answer, since their slot was over.
    pub fn late_requests(&self) -> u64 {
        self.station.late_requests()
    }

    /// Instants of SoC at which a managing node sent none, since the cycle before exceeded its length.
    pub fn skipped_cycles(&self) -> u64 {
        self.station.skipped_cycles()
    }

    /// The lateness of this process: of the handling of received frames, and of SoC.
    pub fn lateness(&self) -> Distribution {
        self.lateness.figure(self.skipped_cycles())
    }

    /// The counters of the port.
    ///
    /// # Errors
    /// [`onbeat_link::Error::Io`].
    pub fn diagnostics(&mut self) -> Result<Diagnostics> {
        self.port.diagnostics()
    }

    /// The port's back end.
    pub fn backend(&self) -> Backend {
        self.port.capabilities().backend()
    }

    /// Turns the node on and runs it until `go_on` returns false: it is called at least 20 times a second.
    /// `process` has one turn per cycle; values that it sets are sent in the next cycle.
    ///
    /// # Errors
    /// The port fails. A link that is down is not a failure: the node continues once it is up.
    pub fn run(
        &mut self,
        process: impl FnMut(&mut S),
        mut go_on: impl FnMut(&S) -> bool,
    ) -> Result<()> {
        self.run_observed(process, |runner| go_on(&runner.station))
    }

    /// The same; `go_on` can read the events up to now.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub(crate) fn run_observed(
        &mut self,
        mut process: impl FnMut(&mut S),
        mut go_on: impl FnMut(&Self) -> bool,
    ) -> Result<()> {
        self.lateness.start();
        self.station.start(self.port.now().0);
        self.after(None, &mut process)?;
        while go_on(self) {
            self.wait()?;
            // Frames first: a delay of this thread does not make them late.
            while let Some(frame) = self.received()? {
                let (at_ns, stamp, answered) = (self.port.now().0, frame.stamp, frame.answered);
                let late_ns = lateness::since(stamp);
                let late = !answered && self.is_over(&frame)?;
                // When it was received, not when this thread was scheduled.
                let received_ns = at_ns.saturating_sub(late_ns.unwrap_or(0));
                let octets = self.port.octets(&frame);
                if self.responder.is_none() && message_type(octets) == Some(MessageType::PREQ) {
                    self.expected.received(received_ns, cycle_ns(&self.station));
                }
                match self.station.controlled() {
                    Some(controlled) if answered => {
                        controlled.handle_answered_frame(at_ns, octets);
                    }
                    Some(controlled) if late => controlled.handle_late_frame(at_ns, octets),
                    _ => self.station.handle_frame(at_ns, octets),
                }
                self.after(Some((received_ns, frame)), &mut process)?;
                // No wakeup follows an answered poll: the next frame brings it.
                if let Some(late_ns) = late_ns.filter(|_| !answered) {
                    self.lateness.handled(stamp, late_ns);
                }
            }
            let now = self.port.now();
            if self.station.next_deadline_ns().is_some_and(|deadline| deadline <= now.0) {
                self.station.handle_deadline(now.0);
                self.after(None, &mut process)?;
            }
            // After everything with a deadline.
            let now_ns = self.port.now().0;
            if self.others.as_mut().is_some_and(|others| others.serve(now_ns, &mut self.station)) {
                self.after(None, &mut process)?;
            }
            if let Some(done) = self.store.as_mut().and_then(Store::done) {
                let now_ns = self.port.now().0;
                if let Some(controlled) = self.station.controlled() {
                    controlled.handle_stored(now_ns, done);
                }
                self.after(None, &mut process)?;
            }
            // For other frames there is nothing to do: the port counts those that were not sent.
            while let Some(news) = unless_down(self.port.confirmation())?.flatten() {
                let launched = self.launcher.as_ref().and_then(|launcher| launcher.launched(&news));
                if let Some(soc_ns) = launched {
                    self.launched(soc_ns, news.outcome);
                    self.after(None, &mut process)?;
                } else if let Some((response, driver)) = self.transmitter.confirmed(&news) {
                    self.bus.record(response, driver);
                }
            }
        }
        Ok(())
    }

    /// Waits for a frame or the next deadline. The thread wakes before a SoC to send or a poll to answer, and waits
    /// actively for it.
    fn wait(&mut self) -> Result<()> {
        let now = self.port.now();
        let latest = now.after(MAX_WAIT_NS);
        let deadline = self.station.next_deadline_ns().map_or(latest, Time).min(latest);
        let soc = self.station.managing().and_then(|managing| managing.awaited_soc_ns());
        if let Some((soc_ns, cycle_ns)) = soc.filter(|(soc_ns, _)| *soc_ns == deadline.0) {
            let wake = Time(self.lead.before(soc_ns, cycle_ns / SOC_WAIT_SHARE));
            if !self.sleep(now, wake)? {
                while self.port.now() < deadline {
                    std::hint::spin_loop();
                }
            }
            return Ok(());
        }
        match self.expected.window(now.0, cycle_ns(&self.station), &self.lead) {
            Some(window) if window.from_ns < deadline.0 => {
                if !self.sleep(now, Time(window.from_ns))? {
                    self.receive_actively(deadline.min(Time(window.until_ns)))?;
                }
            }
            _ => {
                let station = &self.station;
                let other = self.others.as_ref().and_then(|others| others.awaited(station));
                unless_down(self.port.wait_for(deadline, other))?;
            }
        }
        Ok(())
    }

    /// Waits for a frame until `wake`; true: there is one. Measures the wake-up latency.
    fn sleep(&mut self, now: Time, wake: Time) -> Result<bool> {
        let received = unless_down(self.port.wait(wake))?.unwrap_or(true);
        if !received && now < wake {
            self.lead.woke(self.port.now().since(wake));
        }
        Ok(received)
    }

    /// Waits actively for a frame.
    fn receive_actively(&mut self, until: Time) -> Result<()> {
        let from = self.port.now();
        let mut now = from;
        while now < until && !unless_down(self.port.wait(now))?.unwrap_or(true) {
            std::hint::spin_loop();
            now = self.port.now();
        }
        self.expected.waited(self.port.now().since(from));
        Ok(())
    }

    /// The next frame: received ahead of its turn, or of the port.
    fn received(&mut self) -> Result<Option<ReceivedFrame>> {
        Ok(unless_down(self.ahead.next(&mut *self.port))?.flatten())
    }

    /// Whether the slot of a request to a controlled node is over: a frame that ends it was received already.
    fn is_over(&mut self, request: &ReceivedFrame) -> Result<bool> {
        let octets = self.port.octets(request);
        if self.station.controlled().is_none() || !is_request(octets) {
            return Ok(false);
        }
        Ok(unless_down(self.ahead.is_over(&mut *self.port, request))?.unwrap_or(false))
    }

    /// Handles the result of a call to the node: first of all it answers.
    fn after(
        &mut self,
        frame: Option<(u64, ReceivedFrame)>,
        process: &mut impl FnMut(&mut S),
    ) -> Result<()> {
        while let Some(frame) = self.station.poll_transmit() {
            if let Some(response) = self.transmitter.expired() {
                self.bus.record(response, false);
            }
            let at_ns = self.port.now().0;
            match self.transmitter.send(&mut *self.port, &frame) {
                Ok(slot) => {
                    self.counts.responses += u64::from(is_response(&frame));
                    self.sent.push((at_ns, slot, frame));
                }
                Err(error) if error.is_congestion() || error.is_down() => {
                    self.counts.not_sent += 1;
                    self.station.recycle(frame);
                }
                Err(error) => return Err(error),
            }
        }
        self.follow()?;
        if let (Some(store), Some(controlled)) = (&mut self.store, self.station.controlled()) {
            if let Some(keep) = controlled.poll_store() {
                store.keep(keep);
            }
        }
        let request = frame.as_ref().map(|(_, frame)| frame.stamp);
        if let Some((at_ns, frame)) = frame {
            self.seen(at_ns, &frame)?;
            if let Some(others) = &mut self.others {
                others.heard(self.port.octets(&frame));
            }
            self.port.release(frame);
        }
        for (at_ns, slot, frame) in self.sent.drain(..) {
            self.latest_ns = at_ns;
            if message_type(&frame) == Some(MessageType::SOC) {
                self.lateness.sent_soc(at_ns.saturating_sub(self.soc_ns));
            }
            let response = self.bus.observe_sent(at_ns, &frame).zip(request);
            let unstamped =
                response.and_then(|(response, at)| self.transmitter.sent(slot, response, at));
            if let Some(response) = unstamped {
                self.bus.record(response, false);
            }
            self.station.recycle(frame);
        }
        if let Some(managing) = self.station.managing() {
            self.soc_ns = managing.next_soc_ns();
        }
        let mut turned = false;
        while let Some(event) = self.station.poll_event() {
            if S::is_turn(&event) {
                self.counts.turns += 1;
                process(&mut self.station);
                turned = true;
            }
            if S::is_kept(&event) {
                if self.events.len() == KEPT {
                    self.events.pop_front();
                    self.counts.forgotten += 1;
                }
                self.events.push_back((self.port.now().0, event));
            }
        }
        if turned {
            // The process may have become ready, which is part of every response.
            self.follow_response()?;
        }
        Ok(())
    }

    /// Handles the report on a SoC.
    fn launched(&mut self, soc_ns: u64, outcome: Outcome) {
        let now_ns = self.port.now().0;
        let sent = matches!(outcome, Outcome::Sent(_));
        if let (Some(launcher), Outcome::Sent(stamp)) = (&self.launcher, outcome) {
            self.counts.launched += 1;
            self.lateness.launched_soc(stamp, soc_ns, now_ns);
            // Not before the last observed frame.
            self.bus.observe(now_ns, launcher.frame());
            self.latest_ns = now_ns;
        }
        if let Some(managing) = self.station.managing() {
            managing.handle_launched(now_ns, soc_ns, sent);
        }
    }

    /// Updates the frames that the port sends by itself.
    fn follow(&mut self) -> Result<()> {
        if let (Some(launcher), Some(managing)) = (&mut self.launcher, self.station.managing()) {
            if let Some(launch) = managing.poll_launch() {
                launcher.follow(&mut *self.port, launch)?;
            }
        }
        self.follow_response()
    }

    /// Updates the response that the port sends.
    fn follow_response(&mut self) -> Result<()> {
        let Some(responder) = &mut self.responder else { return Ok(()) };
        match self.station.controlled().and_then(ControlledNode::poll_response) {
            Some(response) => responder.follow(&mut *self.port, response),
            None => Ok(()),
        }
    }

    /// Adds a received frame, and its response, to the bus.
    fn seen(&mut self, at_ns: u64, frame: &ReceivedFrame) -> Result<()> {
        self.latest_ns = at_ns.max(self.latest_ns);
        match &self.responder {
            Some(responder) if frame.answered => {
                self.counts.answered += 1;
                let (transmitter, bus) = (&mut self.transmitter, &mut self.bus);
                let other = |news: Confirmation| {
                    if let Some((response, driver)) = transmitter.confirmed(&news) {
                        bus.record(response, driver);
                    }
                };
                let delay_ns =
                    unless_down(responder.delay_ns(&mut *self.port, frame, other))?.flatten();
                let poll = self.port.octets(frame);
                self.bus.observe_answered(self.latest_ns, poll, delay_ns, responder.frame());
            }
            _ => self.bus.observe(self.latest_ns, self.port.octets(frame)),
        }
        Ok(())
    }
}

/// The length of a cycle in the objects of a node; 0: none is set yet.
pub(crate) fn cycle_ns(station: &impl Station) -> u64 {
    station.objects().number(profile::CYCLE_LENGTH_US) * 1000
}

/// The type of a POWERLINK message.
fn message_type(frame: &[u8]) -> Option<MessageType> {
    match frame.get(12..=HEADER_LEN)? {
        [0x88, 0xab, kind] => Some(MessageType(*kind)),
        _ => None,
    }
}

pub(crate) fn is_soa(frame: &[u8]) -> bool {
    message_type(frame) == Some(MessageType::SOA)
}

fn is_request(frame: &[u8]) -> bool {
    matches!(message_type(frame), Some(MessageType::SOA | MessageType::PREQ))
}

/// Whether the slot of a request is over with a later frame of the same sender: that of a SoA with a SoC or SoA, that
/// of a PReq with the SoC of the next cycle. A managing node may accept a PRes until then.
pub(crate) fn ends(request: &[u8], next: &[u8]) -> bool {
    let ends = match message_type(next) {
        Some(MessageType::SOC) => true,
        Some(MessageType::SOA) => message_type(request) == Some(MessageType::SOA),
        _ => false,
    };
    ends && request.get(6..12) == next.get(6..12)
}

/// Whether a frame of this node is a response to a poll.
fn is_response(frame: &[u8]) -> bool {
    frame.get(HEADER_LEN) == Some(&MessageType::PRES.0)
}

/// `None` if the interface is down.
fn unless_down<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_down() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_ends_with_the_next_soc_or_soa_of_its_sender() {
        let frame = |source: u8, ethertype: [u8; 2], kind: u8| {
            let mut frame = vec![0; 60];
            frame[11] = source;
            frame[12..14].copy_from_slice(&ethertype);
            frame[14] = kind;
            frame
        };
        let powerlink = [0x88, 0xab];
        let (soa, preq) = (frame(1, powerlink, 5), frame(1, powerlink, 3));
        assert!(is_request(&soa) && is_request(&preq) && !is_request(&soa[..14]));
        assert!(!is_request(&frame(1, powerlink, 6)));
        for (next, ends_phase, ends_poll) in [
            (frame(1, powerlink, 5), true, false),
            (frame(1, powerlink, 1), true, true),
            // Its own ASnd, an answer of another node, and a SoA of another managing node.
            (frame(1, powerlink, 6), false, false),
            (frame(2, powerlink, 6), false, false),
            (frame(2, powerlink, 5), false, false),
            (frame(1, [8, 0], 5), false, false),
        ] {
            let over = (ends(&soa, &next), ends(&preq, &next));
            assert_eq!(over, (ends_phase, ends_poll), "{:?}", &next[11..15]);
        }
    }
}
