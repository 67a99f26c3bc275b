//! A stream between two hosts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use onbeat_realtime::interrupt::wait_until;
use onbeat_wire::{MacAddress, VlanTag};

use crate::traffic::{
    Delivery, ExpectedStream, FrameSpec, Rate, Sink, Source, SourceConfig, SourceReport, settle,
};
use crate::{Result, World};

/// Priority of the streams' frames.
pub(super) const PCP: u8 = 6;

/// A stream between two hosts, each with one interface "eth0".
#[derive(Debug, Clone)]
pub(super) struct FlowSpec {
    pub(super) name: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    /// Group address that the stream is told by, and its VLAN.
    pub(super) destination: MacAddress,
    pub(super) vlan: u16,
    pub(super) rate: u64,
    pub(super) size: usize,
}

/// It flows.
pub(super) struct Flow {
    pub(super) name: &'static str,
    stream: u32,
    source: Source,
    sink: Sink,
}

/// It has flowed.
pub(super) struct FlowResult {
    pub(super) name: &'static str,
    pub(super) delivery: Delivery,
    /// Frames that arrived other than they were sent: octets, VLAN tag, or a sequence tag left.
    pub(super) changed: u64,
}

impl Flow {
    pub(super) fn start(world: &World, spec: &FlowSpec) -> Result<Self> {
        let stream = next_stream();
        let vlans = vec![VlanTag { pcp: PCP, ..VlanTag::new(spec.vlan) }];
        let expect = ExpectedStream { stream, vlans: vlans.clone() };
        let sink = Sink::start(world.namespace(spec.to)?, "eth0", &[expect])?;
        let talker = world.handle(spec.from)?;
        let config = SourceConfig {
            stream,
            frame: FrameSpec {
                destination: spec.destination,
                source: talker.link("eth0")?.mac.unwrap_or_default(),
                vlans,
                size: spec.size,
            },
            rate: Rate::PerSecond(spec.rate),
            limit: None,
            spin: Duration::ZERO,
        };
        let source = Source::start(talker.namespace(), "eth0", config)?;
        Ok(Self { name: spec.name, stream, source, sink })
    }

    /// Frames below this number were begun to be sent; all others are sent later than now.
    pub(super) fn begun(&self) -> u64 {
        self.source.begun()
    }

    pub(super) fn sent(&self) -> u64 {
        self.source.sent()
    }

    pub(super) fn delivered(&self) -> u64 {
        self.sink.delivered(self.stream)
    }

    /// Every frame below this number that was waited for has arrived.
    pub(super) fn complete_below(&self) -> u64 {
        self.sink.complete_below(self.stream)
    }

    /// Does not wait for frames below this number any more.
    pub(super) fn expect_from(&self, sequence: u64) {
        self.sink.expect_from(self.stream, sequence);
    }

    /// Stops sending.
    fn stop(self) -> Result<StoppedFlow> {
        let sent = self.source.stop()?;
        Ok(StoppedFlow { name: self.name, sent, sink: self.sink })
    }
}

/// A number for a stream. Each of a process has its own: late frames of one before it are foreign.
pub(super) fn next_stream() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// It is no longer sent; frames may be on their way.
struct StoppedFlow {
    name: &'static str,
    sent: SourceReport,
    sink: Sink,
}

impl StoppedFlow {
    fn finish(self) -> Result<FlowResult> {
        let settled = settle(self.sent, self.sink)?;
        Ok(FlowResult { name: self.name, delivery: settled.delivery, changed: settled.changed })
    }
}

/// Stops all flows and compares.
pub(super) fn finish_all(flows: Vec<Flow>) -> Result<Vec<FlowResult>> {
    // All of them first: while one settles, no other goes on.
    let stopped: Vec<StoppedFlow> = flows.into_iter().map(Flow::stop).collect::<Result<_>>()?;
    stopped.into_iter().map(StoppedFlow::finish).collect()
}

/// Waits until what had been sent by now has arrived; whether it has. What has not is lost, and not
/// waited for any more.
pub(super) fn caught_up(flows: &[Flow]) -> Result<bool> {
    const BOUND: Duration = Duration::from_secs(2);
    let begun: Vec<u64> = flows.iter().map(Flow::begun).collect();
    let caught_up = wait_until(BOUND, || {
        flows.iter().zip(&begun).all(|(flow, begun)| flow.complete_below() >= *begun)
    })?;
    flows.iter().zip(&begun).for_each(|(flow, begun)| flow.expect_from(*begun));
    Ok(caught_up)
}
