//! Streams between hosts; each frame has a number.

use onbeat_lab::World;
use onbeat_lab::traffic::{
    Delivery, ExpectedStream, FrameSpec, Rate, Sink, SinkReport, Source, SourceConfig,
};
use onbeat_wire::{MacAddress, VlanTag};

use super::wait_for;

/// Priority of the frames: paths that change their VLAN must not change it.
const PCP: u8 = 5;

/// A stream from interface eth0 of one host to that of another.
#[derive(Debug)]
pub(crate) struct Flow {
    stream: u32,
    pub(crate) source: Source,
    pub(crate) sink: Sink,
}

/// Delivery of a stream, with its record.
#[derive(Debug)]
pub(crate) struct FinishedFlow {
    pub(crate) delivery: Delivery,
    pub(crate) report: SinkReport,
}

/// The tag of frames of a VLAN.
fn tag(vlan: u16) -> VlanTag {
    VlanTag { pcp: PCP, ..VlanTag::new(vlan) }
}

impl Flow {
    /// Starts to send `rate` frames per second, `limit` at most, of a VLAN.
    pub(crate) fn start(
        world: &World,
        (from, to): (&str, &str),
        stream: u32,
        (destination, vlan): (&str, u16),
        rate: u64,
        limit: Option<u64>,
    ) -> Flow {
        Flow::tagged(world, (from, to), stream, (destination, tag(vlan)), rate, limit)
    }

    /// Like [`Flow::start`], with a tag of the caller.
    pub(crate) fn tagged(
        world: &World,
        (from, to): (&str, &str),
        stream: u32,
        (destination, tag): (&str, VlanTag),
        rate: u64,
        limit: Option<u64>,
    ) -> Flow {
        let sink = tagged_sink(world, to, stream, tag);
        let config = SourceConfig {
            stream,
            frame: FrameSpec {
                destination: address(destination),
                source: MacAddress([0x02, 0, 0, 0, 0, stream as u8]),
                vlans: vec![tag],
                size: 300,
            },
            rate: Rate::PerSecond(rate),
            limit,
            spin: std::time::Duration::ZERO,
        };
        let namespace = world.namespace(from).expect("the talker");
        let source = Source::start(namespace, "eth0", config).expect("a source");
        Flow { stream, source, sink }
    }

    /// Waits until `frames` more frames have been sent and have arrived, with all frames before them.
    #[track_caller]
    pub(crate) fn advance(&self, frames: u64) {
        let end = self.source.begun() + frames;
        let what = format!("stream {} arrives up to frame {end}", self.stream);
        wait_for(&what, || self.sink.complete_below(self.stream) >= end);
    }

    /// The transmission of frames below this number has started; other frames are sent after this call.
    pub(crate) fn begun(&self) -> u64 {
        self.source.begun()
    }

    /// Stops sending, waits until all frames have arrived, and requires that each arrived once, in
    /// order and unchanged.
    #[track_caller]
    pub(crate) fn finish_whole(self) -> u64 {
        let delivery = self.finish_complete();
        assert_eq!(delivery.record.out_of_order(), 0, "frames out of order");
        delivery.sent()
    }

    /// Like [`Flow::finish_whole`], in any order.
    #[track_caller]
    pub(crate) fn finish_complete(self) -> Delivery {
        let stream = self.stream;
        let delivery = self.finish_without_loss();
        assert_eq!(delivery.record.duplicated(), 0, "duplicated in stream {stream}");
        delivery
    }

    /// Like [`Flow::finish_complete`], for frames that may pass twice.
    #[track_caller]
    pub(crate) fn finish_without_loss(self) -> Delivery {
        let stream = self.stream;
        let sent = self.source.stop().expect("it sends to the end");
        let sink = self.sink;
        let all = || sink.complete_below(stream) >= sent.sent;
        // Missing frames are reported below, frame by frame.
        let _ = onbeat_realtime::interrupt::wait_until(super::BOUND, all);
        let mut report = sink.stop().expect("it receives to the end");
        let record = report.take(stream).expect("the stream");
        let delivery = Delivery::new(sent, record);
        assert_eq!(delivery.lost(), 0, "stream {stream} lost: {:?}", delivery.lost);
        let record = &delivery.record;
        let changed = (record.wrong_vlan, record.sequence_tagged, report.corrupted);
        assert_eq!(changed, (0, 0, 0), "wrong VLAN tag, R-TAG left, corrupted in stream {stream}");
        delivery
    }

    /// Stops sending and receiving, without waiting for frames.
    pub(crate) fn finish(self) -> FinishedFlow {
        let sent = self.source.stop().expect("it sends to the end");
        let mut report = self.sink.stop().expect("it receives to the end");
        let record = report.take(self.stream).expect("the stream");
        FinishedFlow { delivery: Delivery::new(sent, record), report }
    }
}

/// Receives a stream from interface eth0 of a host, where its frames must have `vlan`.
pub(crate) fn sink(world: &World, host: &str, stream: u32, vlan: u16) -> Sink {
    tagged_sink(world, host, stream, tag(vlan))
}

fn tagged_sink(world: &World, host: &str, stream: u32, tag: VlanTag) -> Sink {
    let expect = ExpectedStream { stream, vlans: vec![tag] };
    let namespace = world.namespace(host).expect("the listener");
    Sink::start(namespace, "eth0", &[expect]).expect("a sink")
}

/// A MAC address from its text.
pub(crate) fn address(text: &str) -> MacAddress {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a MAC address"))
}
