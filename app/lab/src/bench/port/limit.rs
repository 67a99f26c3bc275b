//! The limit: an XDP program responds at once ([`super::wire::Wire::reflect`]), so that only the delay
//! of the wire remains. The managing node is a minimal loop around a system call.

use onbeat_netdev::PacketSocket;
use onbeat_realtime::clock::sleep_until;

use super::frames::Frame;
use super::node::{ControlledNode, ManagingNode, PortNodeCounters};
use super::rig::{MN, Rig};
use super::sleeper::Sleeper;
use crate::Result;
use crate::traffic::socket;

#[derive(Debug)]
pub(super) struct BareRequester {
    socket: PacketSocket,
    request: Frame,
    sleeper: Sleeper,
    counters: PortNodeCounters,
}

impl BareRequester {
    pub(super) fn new(rig: &Rig) -> Result<Self> {
        Ok(Self {
            socket: socket::sender(rig.mn.namespace(), MN)?,
            request: rig.request,
            sleeper: Sleeper::default(),
            counters: PortNodeCounters::default(),
        })
    }
}

impl ManagingNode for BareRequester {
    fn start_requests(&mut self, first_ns: u64, period_ns: u64) -> Result<()> {
        self.sleeper.start_requests(first_ns, period_ns);
        Ok(())
    }

    fn serve(&mut self, until_ns: u64) -> Result<()> {
        while self.sleeper.sleep(until_ns) {
            match self.socket.send(&self.request) {
                Ok(()) => self.counters.sent += 1,
                Err(_) => self.counters.failed += 1,
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.sleeper.finish();
        Ok(())
    }

    fn counters(&mut self) -> Result<PortNodeCounters> {
        Ok(PortNodeCounters { missed: self.sleeper.missed, ..self.counters })
    }

    fn take_wakeups(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.sleeper.wakeups)
    }
}

/// The controlled node: the XDP program on its interface does all the work.
#[derive(Debug)]
pub(super) struct Reflector;

impl ControlledNode for Reflector {
    fn serve(&mut self, until_ns: u64) -> Result<()> {
        sleep_until(until_ns);
        Ok(())
    }

    fn counters(&mut self) -> Result<PortNodeCounters> {
        Ok(PortNodeCounters::default())
    }
}
