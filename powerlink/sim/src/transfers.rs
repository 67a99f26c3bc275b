//! Values that a managing node writes to a controlled node by SDO and reads again, as a capture.

use std::sync::Arc;

use onbeat_powerlink::od::{Abort, id, profile};
use onbeat_powerlink::sdo::{CompletedRequest, Request};
use onbeat_wire::ethernet::HEADER_LEN;
use onbeat_wire::powerlink::{Body, Message, NodeId, Sdo, Segmentation, Service};

use crate::{Conditions, DATA, Network, NetworkConfig};

/// The controlled node.
const NODE: NodeId = NodeId(1);
/// Maximum virtual time of a request.
const LIMIT_NS: u64 = 3_600_000_000_000;
/// Frames of SDO until a transfer of eight segments is aborted: within the first window of four, since frames that are
/// queued already are sent before an abort.
const ABORTED_AFTER: usize = 3;

/// A frame, starting at the destination address and without FCS, and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Nanoseconds of virtual time.
    pub time_ns: u64,
    /// Its octets.
    pub octets: Vec<u8>,
}

impl CapturedFrame {
    /// The frame of SDO.
    fn sdo(&self) -> Option<Sdo<'_>> {
        match Message::parse(self.octets.get(HEADER_LEN..)?).ok()?.body {
            Body::Asnd(Service::Sdo(sdo)) => Some(sdo),
            _ => None,
        }
    }

    fn segmentation(&self) -> Option<Segmentation> {
        self.sdo()?.command.map(|command| command.segmentation)
    }

    fn is_abort(&self) -> bool {
        self.sdo().and_then(|sdo| sdo.command).is_some_and(|command| command.abort)
    }
}

/// A network with one controlled node, and the frames of SDO on its bus.
pub struct Transfers {
    /// The network.
    pub network: Network,
    /// The frames of SDO.
    pub frames: Vec<CapturedFrame>,
}

impl Transfers {
    /// A network in operation, without losses until then.
    ///
    /// # Panics
    /// It does not reach OPERATIONAL.
    pub fn new(conditions: Conditions, seed: u64) -> Self {
        let mut network = Network::new(NetworkConfig {
            nodes: 1,
            cycle_us: 1_000,
            mandatory: false,
            multiplexed_cycles: 0,
            conditions: Conditions { loss_per_million: 0, ..conditions },
            seed,
        });
        let up = network.run_until(LIMIT_NS, Network::is_operational);
        assert!(up, "the network is not in operation: {:?}", network.checker.violations());
        network.bus.conditions = conditions;
        Transfers { network, frames: Vec::new() }
    }

    /// A value of a length: octets that differ from their neighbors, and from those of the next segment.
    pub fn value(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n % 251) as u8).collect()
    }

    /// Writes a value, and reads it; returns the value read.
    ///
    /// # Errors
    /// One of the requests is aborted.
    pub fn write_and_read(&mut self, value: &[u8]) -> Result<Vec<u8>, Abort> {
        self.request(Request::Write(DATA, value.into())).result?;
        self.request(Request::Read(DATA)).result
    }

    /// Executes a request.
    ///
    /// # Panics
    /// It is not completed within an hour of virtual time.
    pub fn request(&mut self, request: Request) -> CompletedRequest {
        self.start(request);
        self.complete()
    }

    /// Starts a request.
    ///
    /// # Panics
    /// The node is not in the network.
    pub fn start(&mut self, request: Request) {
        let now_ns = self.network.bus.now_ns();
        let accepted = self.network.managing().request(now_ns, NODE, request);
        accepted.expect("the node is in the network");
    }

    /// Runs until the request is completed.
    ///
    /// # Panics
    /// It is not within an hour of virtual time.
    pub fn complete(&mut self) -> CompletedRequest {
        let end_ns = self.network.bus.now_ns() + LIMIT_NS;
        while self.network.bus.now_ns() < end_ns {
            self.run(1_000_000);
            if let Some((_, done)) = self.network.managing().poll_completed() {
                return done;
            }
        }
        panic!("a request is not completed within {LIMIT_NS} ns");
    }

    /// Runs for a time.
    pub fn run(&mut self, ns: u64) {
        let frames = &mut self.frames;
        self.network.run_watched(ns, |time_ns, octets| {
            let frame = CapturedFrame { time_ns, octets: octets.to_vec() };
            if frame.sdo().is_some() {
                frames.push(frame);
            }
        });
    }

    /// Runs until this number of further frames of SDO was sent.
    ///
    /// # Panics
    /// They are not sent within an hour of virtual time.
    fn run_frames(&mut self, frames: usize) {
        let (start, end_ns) = (self.frames.len(), self.network.bus.now_ns() + LIMIT_NS);
        while self.frames.len() < start + frames {
            assert!(self.network.bus.now_ns() < end_ns, "no frames within {LIMIT_NS} ns");
            self.run(100_000);
        }
    }

    /// The transfers of `vectors/powerlink/transfers.pcap`: lengths around every boundary of one segment, several
    /// segments, and transfers that one of the two ends aborts.
    ///
    /// # Panics
    /// A value is not read as it was written, or a transfer is not aborted.
    pub fn record(&mut self) {
        for len in [1, 4, 5, 248, 249, 252, 253, 256, 257, 600, 700, 5_000] {
            let value = Transfers::value(len);
            assert_eq!(self.write_and_read(&value), Ok(value), "{len} octets");
        }
        let long: Arc<[u8]> = Transfers::value(2_000).into();
        for (refused, abort) in [
            (Request::Read(id(0x7000, 0)), Abort::NO_OBJECT),
            (Request::Write(profile::CYCLE_LENGTH_US, long.clone()), Abort::TOO_LONG),
        ] {
            assert_eq!(self.request(refused).result, Err(abort));
        }
        let before = self.request(Request::Read(DATA)).result;
        for aborted in [Request::Write(DATA, long), Request::Read(DATA)] {
            let start = self.frames.len();
            self.start(aborted);
            self.run_frames(ABORTED_AFTER);
            let now_ns = self.network.bus.now_ns();
            self.network.managing().abort_request(now_ns, NODE, Abort::LOCAL);
            assert_eq!(self.complete().result, Err(Abort::LOCAL));
            assert!(self.request(Request::Read(DATA)).result == before, "the old value remains");
            let aborted = self.frames[start..].iter().position(CapturedFrame::is_abort);
            let aborted = &self.frames[start..][..aborted.expect("the abort is sent")];
            let is_last =
                |frame: &CapturedFrame| frame.segmentation() == Some(Segmentation::Complete);
            assert!(!aborted.iter().any(is_last), "it was aborted in mid-transfer");
        }
        assert_eq!(self.request(Request::Read(id(0x1018, 0))).result, Ok(vec![4]));
    }

    /// The frames as a capture file: libpcap, with nanoseconds.
    pub fn capture(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let mut put = |numbers: &[u32]| {
            file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        };
        // Magic, version 2.4, no time zone, maximum length, Ethernet.
        put(&[0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 65_535, 1]);
        for CapturedFrame { time_ns, octets } in &self.frames {
            let second = 1_000_000_000;
            let (seconds, ns) = ((time_ns / second) as u32, (time_ns % second) as u32);
            let len = octets.len() as u32;
            file.extend([seconds, ns, len, len].into_iter().flat_map(u32::to_le_bytes));
            file.extend(octets);
        }
        file
    }
}
