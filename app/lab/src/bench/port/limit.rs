//! The limit: an XDP program answers at once ([`super::wire::Wire::reflect`]), so that what is
//! left is the wire itself; and the managing node is a bare loop around a system call.

use onbeat_netdev::PacketSocket;
use onbeat_realtime::clock::sleep_until;

use super::frames::Frame;
use super::node::{ControlledNode, Done, ManagingNode};
use super::rig::{MN, Rig};
use super::sleeper::Sleeper;
use crate::Result;
use crate::traffic::socket;

#[derive(Debug)]
pub(super) struct Bare {
    socket: PacketSocket,
    request: Frame,
    sleeper: Sleeper,
    done: Done,
}

impl Bare {
    pub(super) fn new(rig: &Rig) -> Result<Self> {
        Ok(Self {
            socket: socket::sender(rig.mn.namespace(), MN)?,
            request: rig.request,
            sleeper: Sleeper::default(),
            done: Done::default(),
        })
    }
}

impl ManagingNode for Bare {
    fn ask(&mut self, first_ns: u64, period_ns: u64) -> Result<()> {
        self.sleeper.ask(first_ns, period_ns);
        Ok(())
    }

    fn serve(&mut self, until_ns: u64) -> Result<()> {
        while self.sleeper.sleep(until_ns) {
            match self.socket.send(&self.request) {
                Ok(()) => self.done.sent += 1,
                Err(_) => self.done.failed += 1,
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.sleeper.finish();
        Ok(())
    }

    fn done(&mut self) -> Result<Done> {
        Ok(Done { missed: self.sleeper.missed, ..self.done })
    }

    fn take_wakeups(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.sleeper.wakeups)
    }
}

/// The program on its interface does all the work.
#[derive(Debug)]
pub(super) struct Reflecting;

impl ControlledNode for Reflecting {
    fn serve(&mut self, until_ns: u64) -> Result<()> {
        sleep_until(until_ns);
        Ok(())
    }

    fn done(&mut self) -> Result<Done> {
        Ok(Done::default())
    }
}
