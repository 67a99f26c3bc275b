//! A node on a port.

use std::collections::VecDeque;

use onbeat_link::{Diagnostics, Port, Received, Result, Slot, Time};

use crate::{Bus, Station};

/// Longest frame, without FCS.
const LONGEST: usize = 1514;

/// Events that are kept.
const KEPT: usize = 4096;

/// How long a wait takes at most: as soon is the runner asked whether to go on.
const LOOK_NS: u64 = 50_000_000;

/// What a runner counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Turns that the process had: one in each cycle.
    pub turns: u64,
    /// Frames that the port did not take: its link was down, or its queue full.
    pub not_sent: u64,
    /// Events that were forgotten for want of room.
    pub forgotten: u64,
}

/// A node on a port, and what it sees of the bus. One thread does it all.
pub struct Runner<S: Station> {
    port: Box<dyn Port>,
    slot: Slot,
    station: S,
    /// What was sent since the bus was last told of it.
    sent: Vec<(u64, Vec<u8>)>,
    bus: Bus,
    events: VecDeque<(u64, S::Event)>,
    counts: Counts,
}

impl<S: Station> Runner<S> {
    /// A node on a port. It was built to send from the port's address.
    ///
    /// # Errors
    /// The port has no room for a frame of any length, or for the groups of POWERLINK.
    pub fn new(mut port: Box<dyn Port>, station: S) -> Result<Self> {
        for group in S::GROUPS {
            port.add_multicast(*group)?;
        }
        let slot = port.allocate(LONGEST)?;
        Ok(Runner {
            port,
            slot,
            station,
            sent: Vec::with_capacity(8),
            bus: Bus::new(),
            events: VecDeque::with_capacity(KEPT),
            counts: Counts::default(),
        })
    }

    /// The node.
    pub fn station(&self) -> &S {
        &self.station
    }

    /// The bus as the node sees it: what it receives, and what it sends.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// What happened to the node but for what every cycle has, and when by the port's clock.
    pub fn events(&self) -> impl Iterator<Item = (u64, &S::Event)> {
        self.events.iter().map(|(time_ns, event)| (*time_ns, event))
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What the port counted.
    ///
    /// # Errors
    /// [`onbeat_link::Error::Io`].
    pub fn diagnostics(&mut self) -> Result<Diagnostics> {
        self.port.diagnostics()
    }

    /// The name of the port's back end.
    pub fn backend(&self) -> &'static str {
        self.port.capabilities().backend()
    }

    /// Turns the node on and runs it, for as long as `go_on` wants: it is asked 20 times a second at
    /// least. `process` has its turn once in each cycle; what it gives goes out in the next.
    ///
    /// # Errors
    /// The port fails. That a link is down is no failure: the node goes on once it is up.
    pub fn run(
        &mut self,
        mut process: impl FnMut(&mut S),
        mut go_on: impl FnMut(&S) -> bool,
    ) -> Result<()> {
        self.station.start(self.port.now().0);
        self.after(None, &mut process)?;
        while go_on(&self.station) {
            let latest = self.port.now().after(LOOK_NS);
            let deadline = self.station.next_deadline_ns().map_or(latest, Time);
            unless_down(self.port.wait(deadline.min(latest)))?;
            // Frames first: what came in time is not late because this thread was.
            while let Some(frame) = unless_down(self.port.receive())?.flatten() {
                let at_ns = self.port.now().0;
                self.station.handle_frame(at_ns, self.port.octets(&frame));
                self.after(Some((at_ns, frame)), &mut process)?;
            }
            let now = self.port.now();
            if self.station.next_deadline_ns().is_some_and(|deadline| deadline <= now.0) {
                self.station.handle_deadline(now.0);
                self.after(None, &mut process)?;
            }
            // Nothing but of frames that did not leave, which the port counts.
            while unless_down(self.port.confirmation())?.flatten().is_some() {}
        }
        Ok(())
    }

    /// What follows from what the node was just told: first of all it answers.
    fn after(
        &mut self,
        frame: Option<(u64, Received)>,
        process: &mut impl FnMut(&mut S),
    ) -> Result<()> {
        while let Some(frame) = self.station.poll_transmit() {
            self.port.update(self.slot, &frame)?;
            let at_ns = self.port.now().0;
            match self.port.send(self.slot) {
                Ok(()) => self.sent.push((at_ns, frame)),
                Err(error) if error.is_congestion() || error.is_down() => {
                    self.counts.not_sent += 1;
                    self.station.recycle(frame);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some((at_ns, frame)) = frame {
            self.bus.observe(at_ns, self.port.octets(&frame));
            self.port.release(frame);
        }
        for (at_ns, frame) in self.sent.drain(..) {
            self.bus.observe(at_ns, &frame);
            self.station.recycle(frame);
        }
        while let Some(event) = self.station.poll_event() {
            if S::is_turn(&event) {
                self.counts.turns += 1;
                process(&mut self.station);
            }
            if S::is_kept(&event) {
                if self.events.len() == KEPT {
                    self.events.pop_front();
                    self.counts.forgotten += 1;
                }
                self.events.push_back((self.port.now().0, event));
            }
        }
        Ok(())
    }
}

/// `None` where the interface is turned off.
fn unless_down<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_down() => Ok(None),
        Err(error) => Err(error),
    }
}
