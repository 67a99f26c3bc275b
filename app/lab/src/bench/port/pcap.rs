//! A plain libpcap program, for reference: immediate mode, a filter, pcap_sendpacket on receipt; cycles
//! by clock_nanosleep and pcap_sendpacket.

use onbeat_realtime::clock::now_ns;

use super::capture::Capture;
use super::frames::{Frame, REQUEST_EXPRESSION};
use super::node::{ControlledNode, ManagingNode, PortNodeCounters};
use super::rig::{CN, MN, Rig};
use super::sleeper::Sleeper;
use crate::{Error, Result};

/// An opened end, or libpcap's error message.
type PcapResult<T> = std::result::Result<T, String>;

/// Longest wait for a request until the program checks whether to stop.
const WAIT_MS: u8 = 20;

pub(super) struct Requester {
    capture: Capture,
    request: Frame,
    sleeper: Sleeper,
    counters: PortNodeCounters,
}

impl Requester {
    pub(super) fn open(rig: &Rig) -> PcapResult<Self> {
        let (namespace, filter) = (rig.mn.namespace(), "ether proto 0x88ab");
        let capture = Capture::open(namespace, MN, filter)?;
        let (sleeper, counters) = (Sleeper::default(), PortNodeCounters::default());
        Ok(Self { capture, request: rig.request, sleeper, counters })
    }
}

impl ManagingNode for Requester {
    fn start_requests(&mut self, first_ns: u64, period_ns: u64) -> Result<()> {
        self.sleeper.start_requests(first_ns, period_ns);
        Ok(())
    }

    fn serve(&mut self, until_ns: u64) -> Result<()> {
        while self.sleeper.sleep(until_ns) {
            count(&mut self.counters, self.capture.send(&self.request));
            while self.capture.next().map_err(Error::Invalid)? {}
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
}

pub(super) struct Responder {
    capture: Capture,
    response: Frame,
    counters: PortNodeCounters,
}

impl Responder {
    pub(super) fn open(rig: &Rig) -> PcapResult<Self> {
        let capture = Capture::open(rig.cn.namespace(), CN, REQUEST_EXPRESSION)?;
        Ok(Self { capture, response: rig.response, counters: PortNodeCounters::default() })
    }
}

impl ControlledNode for Responder {
    fn serve(&mut self, until_ns: u64) -> Result<()> {
        loop {
            self.capture.wait(WAIT_MS);
            if self.capture.next().map_err(Error::Invalid)? {
                count(&mut self.counters, self.capture.send(&self.response));
            }
            if now_ns() >= until_ns {
                return Ok(());
            }
        }
    }

    fn counters(&mut self) -> Result<PortNodeCounters> {
        Ok(self.counters)
    }
}

fn count(counters: &mut PortNodeCounters, sent: bool) {
    if sent {
        counters.sent += 1;
    } else {
        counters.failed += 1;
    }
}
