//! What a plain libpcap program does, for reference: immediate mode, a filter, pcap_sendpacket on
//! receipt; cycles by clock_nanosleep and pcap_sendpacket.

use onbeat_realtime::clock::now_ns;

use super::capture::Capture;
use super::frames::{Frame, REQUEST_EXPRESSION};
use super::node::{ControlledNode, Done, ManagingNode};
use super::rig::{CN, MN, Rig};
use super::sleeper::Sleeper;
use crate::{Error, Result};

/// What was opened, or why not, as libpcap says it.
type Opened<T> = std::result::Result<T, String>;

/// How long a wait for a request lasts before the program looks whether it is to end.
const WAIT_MS: u8 = 20;

pub(super) struct Asking {
    capture: Capture,
    request: Frame,
    sleeper: Sleeper,
    done: Done,
}

impl Asking {
    pub(super) fn open(rig: &Rig) -> Opened<Self> {
        let (namespace, filter) = (rig.mn.namespace(), "ether proto 0x88ab");
        let capture = Capture::open(namespace, MN, filter)?;
        let (sleeper, done) = (Sleeper::default(), Done::default());
        Ok(Self { capture, request: rig.request, sleeper, done })
    }
}

impl ManagingNode for Asking {
    fn ask(&mut self, first_ns: u64, period_ns: u64) -> Result<()> {
        self.sleeper.ask(first_ns, period_ns);
        Ok(())
    }

    fn serve(&mut self, until_ns: u64) -> Result<()> {
        while self.sleeper.sleep(until_ns) {
            count(&mut self.done, self.capture.send(&self.request));
            while self.capture.next().map_err(Error::Invalid)? {}
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
}

pub(super) struct Answering {
    capture: Capture,
    response: Frame,
    done: Done,
}

impl Answering {
    pub(super) fn open(rig: &Rig) -> Opened<Self> {
        let capture = Capture::open(rig.cn.namespace(), CN, REQUEST_EXPRESSION)?;
        Ok(Self { capture, response: rig.response, done: Done::default() })
    }
}

impl ControlledNode for Answering {
    fn serve(&mut self, until_ns: u64) -> Result<()> {
        loop {
            self.capture.wait(WAIT_MS);
            if self.capture.next().map_err(Error::Invalid)? {
                count(&mut self.done, self.capture.send(&self.response));
            }
            if now_ns() >= until_ns {
                return Ok(());
            }
        }
    }

    fn done(&mut self) -> Result<Done> {
        Ok(self.done)
    }
}

fn count(done: &mut Done, sent: bool) {
    if sent {
        done.sent += 1;
    } else {
        done.failed += 1;
    }
}
