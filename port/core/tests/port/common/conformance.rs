//! Requirements of every back end, as one body of tests.
//!
//! [`conformance`] drives a port and, at the other end of the cable, a [`Peer`] that knows nothing
//! of ports. A back end refuses features that it does not have, and has all others. Nothing here
//! measures time: a test waits for an expected frame, or, where a frame must *not* arrive, for one
//! that was sent after it.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use onbeat_testing::RawSocket;
use onbeat_wire::{EtherType, MacAddress};

use onbeat_link::{
    Capability, Cause, Confirmation, Error, Feature, Filter, MIN_FRAME, Outcome, Port,
    ReceivedFrame, Slot, Time,
};

/// The EtherType that the port under test must have been opened for, and no other: one for
/// experiments (IEEE 802, 9.2.4).
pub(crate) const ETHER_TYPE: EtherType = EtherType(0x88b5);
/// Longest wait for something that comes at once unless it never comes.
const BOUND: Duration = Duration::from_secs(10);
/// The peer's address.
const PEER: MacAddress = MacAddress([0x02, 0, 0, 0, 0, 0x99]);
const GROUP: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 0x01]);
const OTHER_GROUP: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 0x02]);
const MILLISECOND: u64 = 1_000_000;
/// Octets of the shortest Ethernet frame, without FCS (IEEE 802.3, 4.4.2).
const SHORTEST: usize = 60;

/// The other end of the cable.
pub(crate) trait Peer {
    /// Sends a frame.
    fn send(&mut self, frame: &[u8]);

    /// The next frame of [`ETHER_TYPE`], or `None` where none comes within `timeout`.
    fn receive(&mut self, timeout: Duration) -> Option<Vec<u8>>;
}

impl Peer for RawSocket {
    fn send(&mut self, frame: &[u8]) {
        RawSocket::send(self, frame);
    }

    fn receive(&mut self, timeout: Duration) -> Option<Vec<u8>> {
        RawSocket::receive(self, timeout)
    }
}

/// Runs the body. The cable is up and has no other user.
///
/// # Panics
/// Where the port does not conform.
pub(crate) fn conformance(port: &mut dyn Port, peer: &mut dyn Peer) {
    let mut bench = Bench { own: port.mac_address(), port, peer };
    assert!(bench.own.is_unicast());
    bench.receives_what_is_meant_for_it();
    bench.takes_frames_back_in_any_order();
    bench.reports_the_vlan_tag();
    bench.sends_what_is_in_the_slot();
    bench.refuses_slots_that_it_cannot_send();
    bench.sends_at_a_time();
    bench.sends_every_cycle();
    bench.answers();
    bench.waits_for_a_descriptor();
    bench.reports_its_clocks();
    bench.counts();
}

struct Bench<'a> {
    port: &'a mut dyn Port,
    peer: &'a mut dyn Peer,
    own: MacAddress,
}

impl Bench<'_> {
    fn receives_what_is_meant_for_it(&mut self) {
        let own = self.own;
        let stranger = MacAddress([0x02, 0, 0, 0, 0, 0x77]);
        self.passes(own, true);
        self.passes(MacAddress::BROADCAST, true);
        self.passes(stranger, false);
        self.passes(GROUP, false);
        self.port.add_multicast(GROUP).unwrap();
        self.port.add_multicast(GROUP).unwrap();
        self.passes(GROUP, true);
        self.passes(OTHER_GROUP, false);
        self.port.add_multicast(OTHER_GROUP).unwrap();
        self.port.remove_multicast(GROUP).unwrap();
        self.passes(GROUP, false);
        self.passes(OTHER_GROUP, true);
        self.port.remove_multicast(OTHER_GROUP).unwrap();
        let gone = self.port.remove_multicast(GROUP);
        assert!(matches!(gone, Err(Error::NoSuchMulticast(GROUP))), "{gone:?}");
        let unicast = self.port.add_multicast(PEER);
        assert!(matches!(unicast, Err(Error::NotMulticast(PEER))), "{unicast:?}");

        let mut other = frame(own, PEER, b"of another protocol");
        other[12..14].copy_from_slice(&[0x88, 0xb6]);
        self.peer.send(&other);
        self.expect(b"of this protocol");
    }

    /// Sends a frame to `to`, and one that comes in any case: which of the two comes first says
    /// whether the former came.
    fn passes(&mut self, to: MacAddress, expected: bool) {
        let probe = frame(to, PEER, b"probe");
        self.peer.send(&probe);
        if expected {
            let received = self.next_frame();
            assert_eq!(self.port.octets(&received), probe, "a frame to {to}");
            assert_eq!(received.len, probe.len());
            assert!(received.stamp.ns > 0 && received.tag.is_none() && !received.answered);
            self.port.release(received);
        }
        self.expect(b"marker");
    }

    /// Sends a frame to the port's own address, which must be the next that it receives.
    fn expect(&mut self, payload: &[u8]) {
        let marker = frame(self.own, PEER, payload);
        self.peer.send(&marker);
        let received = self.next_frame();
        assert_eq!(self.port.octets(&received), marker);
        self.port.release(received);
    }

    fn next_frame(&mut self) -> ReceivedFrame {
        let deadline = Instant::now() + BOUND;
        loop {
            if let Some(received) = self.port.receive().unwrap() {
                return received;
            }
            assert!(Instant::now() < deadline, "no frame came");
            // Confirmations that wait would end each wait at once.
            while self.port.confirmation().unwrap().is_some() {}
            self.port.wait(self.port.now().after(100 * MILLISECOND)).unwrap();
        }
    }

    fn takes_frames_back_in_any_order(&mut self) {
        // More in all than a ring of usual size has places, several held at any time.
        for round in 0..400_u16 {
            let mut held = Vec::new();
            for part in 0..3_u8 {
                let sent = frame(self.own, PEER, &[round.to_be_bytes(), [part, 0x5a]].concat());
                self.peer.send(&sent);
                held.push((self.next_frame(), sent));
            }
            held.rotate_left(usize::from(round % 3));
            for (received, sent) in held {
                assert_eq!(self.port.octets(&received), sent, "round {round}");
                self.port.release(received);
            }
        }
        assert_eq!(self.port.diagnostics().unwrap().receive_drops, 0);
    }

    fn reports_the_vlan_tag(&mut self) {
        let plain = frame(self.own, PEER, b"tagged");
        let tagged = [&plain[..12], &[0x81, 0x00, 0xe0, 0x05], &plain[12..]].concat();
        self.peer.send(&tagged);
        let received = self.next_frame();
        assert_eq!(self.port.octets(&received), plain);
        let tag = received.tag.expect("the tag");
        assert_eq!((tag.tpid, tag.tci), (EtherType::C_VLAN, 0xe005));
        self.port.release(received);
    }

    fn sends_what_is_in_the_slot(&mut self) {
        let slot = self.port.allocate(200).unwrap();
        for payload in [&[1_u8; 100][..], &[2; 46]] {
            let sent = frame(GROUP, self.own, payload);
            self.port.update(slot, &sent).unwrap();
            for _ in 0..2 {
                self.port.send(slot).unwrap();
                assert_eq!(self.peer_receives(), sent);
                self.confirmed(slot, Cause::Now);
            }
        }
        self.port.free(slot).unwrap();
    }

    /// The next frame at the peer; the port is kept going meanwhile.
    fn peer_receives(&mut self) -> Vec<u8> {
        let deadline = Instant::now() + BOUND;
        while Instant::now() < deadline {
            self.port.poll().unwrap();
            if let Some(frame) = self.peer.receive(Duration::from_millis(1)) {
                return frame;
            }
        }
        panic!("the peer received nothing; {}", self.port.diagnostics().unwrap());
    }

    /// Takes the next confirmation, where there are any.
    fn confirmed(&mut self, slot: Slot, cause: Cause) {
        if matches!(self.port.capabilities().get(Feature::Confirmation), Capability::None { .. }) {
            return;
        }
        let mut news = self.next_confirmation();
        // Those of slots that were freed meanwhile may still be on their way.
        while news.slot != slot {
            news = self.next_confirmation();
        }
        assert_eq!(news.cause, cause);
        assert!(matches!(news.outcome, Outcome::Sent(stamp) if stamp.ns > 0), "{news:?}");
    }

    fn next_confirmation(&mut self) -> Confirmation {
        let deadline = Instant::now() + BOUND;
        loop {
            if let Some(news) = self.port.confirmation().unwrap() {
                return news;
            }
            assert!(Instant::now() < deadline, "no confirmation came");
            self.port.wait(self.port.now().after(100 * MILLISECOND)).unwrap();
        }
    }

    fn refuses_slots_that_it_cannot_send(&mut self) {
        let slot = self.port.allocate(MIN_FRAME).unwrap();
        let result = self.port.send(slot);
        assert!(matches!(result, Err(Error::EmptySlot(_))), "{result:?}");
        for length in [0, MIN_FRAME - 1, MIN_FRAME + 1] {
            let result = self.port.update(slot, &vec![0; length]);
            assert!(matches!(result, Err(Error::FrameLength { .. })), "{length}: {result:?}");
        }
        self.port.free(slot).unwrap();
        for result in [
            self.port.free(slot),
            self.port.send(slot),
            self.port.update(slot, &[0; MIN_FRAME]),
            self.port.cancel(slot).map(drop),
        ] {
            assert!(matches!(result, Err(Error::NoSuchSlot(_))), "{result:?}");
        }
        let huge = self.port.allocate(1 << 20);
        assert!(matches!(huge, Err(Error::FrameLength { .. })), "{huge:?}");
    }

    /// Whether the port has a feature. If not, it must refuse `attempt`.
    fn has(
        &mut self,
        feature: Feature,
        attempt: impl FnOnce(&mut dyn Port) -> Option<Error>,
    ) -> bool {
        if self.port.capabilities().require(feature).is_ok() {
            return true;
        }
        match attempt(self.port) {
            Some(Error::Unsupported { feature: named, why, remedy, .. }) => {
                assert_eq!(named, feature);
                assert!(!why.is_empty() && !remedy.is_empty());
            }
            other => panic!("{feature} is not supported, but the request returned {other:?}"),
        }
        false
    }

    fn filled(&mut self, payload: &[u8]) -> (Slot, Vec<u8>) {
        let sent = frame(PEER, self.own, payload);
        let slot = self.port.allocate(sent.len()).unwrap();
        self.port.update(slot, &sent).unwrap();
        (slot, sent)
    }

    fn sends_at_a_time(&mut self) {
        let (slot, sent) = self.filled(&[3; 50]);
        if self.has(Feature::SendAt, |port| port.send_at(slot, Time(1)).err()) {
            let time = self.port.now().after(5 * MILLISECOND);
            self.port.send_at(slot, time).unwrap();
            assert_eq!(self.peer_receives(), sent);
            assert!(self.port.now() >= time, "not before its time");
            self.confirmed(slot, Cause::At(time));

            self.port.send_at(slot, self.port.now().after(3_600_000 * MILLISECOND)).unwrap();
            assert!(self.port.cancel(slot).unwrap());
            assert!(!self.port.cancel(slot).unwrap());
            assert_eq!(self.port.next_deadline(), None);
        }
        self.port.free(slot).unwrap();
    }

    fn sends_every_cycle(&mut self) {
        let (slot, old) = self.filled(&[4; 60]);
        if self.has(Feature::SendEvery, |port| port.send_every(slot, Time(1), 1).err()) {
            let result = self.port.send_every(slot, Time(1), 0);
            assert!(matches!(result, Err(Error::Period)), "{result:?}");
            let first = self.port.now().after(2 * MILLISECOND);
            self.port.send_every(slot, first, MILLISECOND).unwrap();
            for _ in 0..10 {
                assert_eq!(self.peer_receives(), old);
            }
            let new = frame(PEER, self.own, &[5; 60]);
            self.port.update(slot, &new).unwrap();
            let mut left = 1_000;
            while self.peer_receives() != new {
                left -= 1;
                assert!(left > 0, "the frame before the update is still sent");
            }
            for _ in 0..10 {
                assert_eq!(self.peer_receives(), new);
            }
            self.cycles_keep_to_the_grid(slot, first);
            assert!(self.port.cancel(slot).unwrap());
            let (last, marker) = self.filled(b"no cycle any more");
            // Behind what a port may have handed over ahead.
            if self.port.capabilities().require(Feature::SendAt).is_ok() {
                let later = self.port.now().after(50 * MILLISECOND);
                self.port.send_at(last, later).unwrap();
            } else {
                self.port.send(last).unwrap();
            }
            loop {
                let received = self.peer_receives();
                if received == marker {
                    break;
                }
                assert_eq!(received, new, "on its way when the cycle was canceled");
            }
            self.port.send(last).unwrap();
            assert_eq!(self.peer_receives(), marker, "nothing in between");
            self.port.free(last).unwrap();
        }
        self.port.free(slot).unwrap();
        while self.port.confirmation().unwrap().is_some() {}
    }

    fn cycles_keep_to_the_grid(&mut self, of: Slot, first: Time) {
        if self.port.capabilities().require(Feature::Confirmation).is_err() {
            return;
        }
        let mut seen = Vec::new();
        for _ in 0..10 {
            let news = self.next_confirmation();
            let Cause::Cycle { number, due } = news.cause else { panic!("{news:?}") };
            assert_eq!((news.slot, due), (of, first.after(number * MILLISECOND)));
            // In any order: a driver may release frames in another than that of sending.
            assert!(!seen.contains(&number), "{number} twice, after {seen:?}");
            seen.push(number);
        }
    }

    fn answers(&mut self) {
        let (slot, old) = self.filled(b"the answer");
        let request = |node: u8| frame(self.own, PEER, &[0x03, node, 0x5a]);
        let (meant, other) = (request(7), request(8));
        let mut mask = vec![0; MIN_FRAME + 2];
        mask[12..].fill(0xff);
        let filter = Filter::new(&meant[..mask.len()], &mask).unwrap();
        if !self.has(Feature::Response, |port| port.respond(filter, slot).err()) {
            return self.port.free(slot).unwrap();
        }
        let response = self.port.respond(filter, slot).unwrap();
        let result = self.port.free(slot);
        assert!(matches!(result, Err(Error::SlotAnswers(_))), "{result:?}");

        self.answered(&meant, Some(&old), slot);
        self.answered(&other, None, slot);
        let new = frame(PEER, self.own, b"the next ");
        self.port.update(slot, &new).unwrap();
        for _ in 0..10 {
            self.answered(&meant, Some(&new), slot);
        }
        self.port.stop_responding(response).unwrap();
        self.answered(&meant, None, slot);
        self.port.free(slot).unwrap();
    }

    /// Sends a frame, which the port receives, and answers with `answer` or not.
    fn answered(&mut self, request: &[u8], answer: Option<&[u8]>, slot: Slot) {
        self.peer.send(request);
        if let Some(answer) = answer {
            assert_eq!(self.peer_receives(), answer);
            self.confirmed(slot, Cause::Response);
        }
        let received = self.next_frame();
        assert_eq!(self.port.octets(&received), request);
        assert_eq!(received.answered, answer.is_some());
        self.port.release(received);
        if answer.is_none() {
            let (last, marker) = self.filled(b"marker");
            self.port.send(last).unwrap();
            assert_eq!(self.peer_receives(), marker, "nothing was answered");
            self.confirmed(last, Cause::Now);
            self.port.free(last).unwrap();
        }
    }

    fn waits_for_a_descriptor(&mut self) {
        while let Some(received) = self.port.receive().unwrap() {
            self.port.release(received);
        }
        while self.port.confirmation().unwrap().is_some() {}
        let (reader, mut writer) = UnixStream::pair().unwrap();
        let fd = Some(reader.as_fd());
        assert!(!self.port.wait_for(self.port.now().after(MILLISECOND), fd).unwrap());
        writer.write_all(b"1").unwrap();
        let bound = self.port.now().after(BOUND.as_nanos() as u64);
        assert!(self.port.wait_for(bound, fd).unwrap());
        // Still: it was not read.
        assert!(self.port.wait_for(bound, fd).unwrap() && self.port.receive().unwrap().is_none());
        assert!(!self.port.wait(self.port.now().after(MILLISECOND)).unwrap());
        self.peer.send(&frame(self.own, PEER, b"a frame"));
        let received = self.next_frame();
        self.port.release(received);
    }

    fn reports_its_clocks(&mut self) {
        let earlier = self.port.now();
        assert!(self.port.now() >= earlier);
        if self.has(Feature::NicTime, |port| port.nic_time().err()) {
            assert!(self.port.nic_time().unwrap() > 0);
        }
    }

    fn counts(&mut self) {
        let before = self.port.diagnostics().unwrap();
        self.expect(b"counted");
        let (slot, sent) = self.filled(b"counted");
        self.port.send(slot).unwrap();
        assert_eq!(self.peer_receives(), sent);
        self.confirmed(slot, Cause::Now);
        self.port.free(slot).unwrap();
        let after = self.port.diagnostics().unwrap();
        assert_eq!((after.sent, after.received), (before.sent + 1, before.received + 1));
        assert_eq!((after.send_failures, after.receive_drops), (0, 0));
        if self.port.capabilities().require(Feature::Confirmation).is_ok() {
            assert_eq!(after.confirmed, before.confirmed + 1);
        }
    }
}

/// A frame of [`ETHER_TYPE`], with zeros behind the payload up to the shortest length that an
/// Ethernet carries: a NIC would add them, a virtual interface would not.
#[must_use]
pub(crate) fn frame(to: MacAddress, from: MacAddress, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&to.0[..], &from.0, &ETHER_TYPE.to_octets(), payload].concat();
    frame.resize(frame.len().max(SHORTEST), 0);
    frame
}
