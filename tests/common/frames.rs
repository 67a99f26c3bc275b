//! Single frames, octet by octet.

use onbeat_lab::World;
use onbeat_lab::traffic::{Receiver, socket};
use onbeat_netdev::PacketSocket;

use super::stream::address;
use super::wait_for;

/// Sends raw frames into an interface.
#[derive(Debug)]
pub(crate) struct Injector(PacketSocket);

impl Injector {
    pub(crate) fn open(world: &World, station: &str, interface: &str) -> Injector {
        let namespace = world.namespace(station).expect("a station");
        Injector(socket::sender(namespace, interface).expect("a socket"))
    }

    #[track_caller]
    pub(crate) fn send(&self, frame: &[u8]) {
        self.try_send(frame).unwrap_or_else(|error| panic!("{error}: {frame:02x?}"));
    }

    pub(crate) fn try_send(&self, frame: &[u8]) -> std::io::Result<()> {
        self.0.send(frame)
    }
}

/// Frames received at an interface.
#[derive(Debug)]
pub(crate) struct Capture {
    receiver: Receiver,
    pub(crate) frames: Vec<Vec<u8>>,
}

impl Capture {
    pub(crate) fn open(world: &World, station: &str, interface: &str) -> Capture {
        let namespace = world.namespace(station).expect("a station");
        let socket = socket::receiver(namespace, interface).expect("a socket");
        Capture { receiver: Receiver::new(socket), frames: Vec::new() }
    }

    /// Reads pending frames; returns all.
    pub(crate) fn take(&mut self) -> &[Vec<u8>] {
        let frames = &mut self.frames;
        while self.receiver.receive(|frame| frames.push(frame.octets.to_vec())).expect("frames") > 0
        {
        }
        assert_eq!(self.receiver.socket().take_drops().expect("statistics"), 0);
        &self.frames
    }

    /// Waits until `count` frames have been received since it was opened or cleared.
    #[track_caller]
    pub(crate) fn wait(&mut self, count: usize, what: &str) -> &[Vec<u8>] {
        wait_for(&format!("{count} frames: {what}"), || self.take().len() >= count);
        &self.frames
    }
}

/// The description of a frame: addresses, VLAN tags, R-TAG, EtherType, payload.
#[derive(Debug, Clone, Default)]
pub(crate) struct FrameText {
    pub(crate) destination: &'static str,
    /// Outer first; their tags have priority 3 and DEI, which no node may change.
    pub(crate) vlans: Vec<u16>,
    /// The sequence number.
    pub(crate) r_tag: Option<u16>,
    pub(crate) payload: Vec<u8>,
}

impl FrameText {
    /// EtherType of the frames' content: for experiments (IEEE 802, 9.2.4).
    pub(crate) const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

    pub(crate) fn new(destination: &'static str, vlans: &[u16], r_tag: Option<u16>) -> FrameText {
        FrameText { destination, vlans: vlans.to_vec(), r_tag, payload: vec![0xa5; 46] }
    }

    pub(crate) fn octets(&self) -> Vec<u8> {
        let mut octets = address(self.destination).0.to_vec();
        octets.extend([0x02, 0, 0, 0, 0, 9]);
        for vlan in &self.vlans {
            let [high, low] = vlan.to_be_bytes();
            octets.extend([0x81, 0x00, 0x70 | high, low]);
        }
        if let Some(number) = self.r_tag {
            octets.extend([0xf1, 0xc1, 0, 0]);
            octets.extend(number.to_be_bytes());
        }
        octets.extend(Self::ETHERTYPE);
        octets.extend(&self.payload);
        octets
    }
}
