//! The SDO server of a managing node, with a controlled node as client; the time before the first poll.

use std::collections::VecDeque;

use onbeat_powerlink::Node;
use onbeat_powerlink::od::profile;
use onbeat_powerlink::sdo::{Client, CompletedRequest, OutgoingFrame, Request};
use onbeat_wire::MacAddress;
use onbeat_wire::ethernet::{HEADER_LEN, Repr};
use onbeat_wire::powerlink::{Body, Message, NmtState, NodeId, Service, multicast};

use crate::common::cable::{CYCLE_NS, Cable, NODE};
use crate::common::message;

/// The node's own client, beside the server of the node.
struct OwnClient {
    client: Client,
    frames: VecDeque<OutgoingFrame>,
    /// Number of the cable's frames that it has received.
    received: usize,
}

impl OwnClient {
    fn new(cable: &Cable) -> Self {
        let (client, frames) = (Client::new(5_000_000_000), VecDeque::new());
        OwnClient { client, frames, received: cable.sent.len() }
    }

    /// Executes a request; the managing node handles the frames as if it had invited the node.
    fn execute(&mut self, cable: &mut Cable, request: Request) -> Option<CompletedRequest> {
        self.client.request(cable.now_ns, request, &mut self.frames);
        for _ in 0..100 {
            while let Some(frame) = self.frames.pop_front() {
                let body = Body::Asnd(Service::Sdo(frame.sdo()));
                let message = Message { destination: NodeId::MN, source: NODE, body };
                let mut octets = vec![0; (HEADER_LEN + message.buffer_len()).max(60)];
                let source = MacAddress([2, 0, 0, 0, 0, 1]);
                let (destination, ethertype) = (multicast::ASND, onbeat_wire::EtherType::POWERLINK);
                Repr { destination, source, ethertype }.emit(&mut octets).unwrap();
                message.emit(&mut octets[HEADER_LEN..]).unwrap();
                cable.mn.handle_frame(cable.now_ns, &octets);
            }
            cable.run(cable.now_ns + CYCLE_NS, |_| false);
            let sent = cable.sent[self.received..].iter();
            let mut done = None;
            for (_, frame) in sent {
                let message = message(frame);
                if let (NODE, Body::Asnd(Service::Sdo(sdo))) = (message.destination, message.body) {
                    done = self.client.receive(cable.now_ns, &sdo, &mut self.frames).or(done);
                }
            }
            self.received = cable.sent.len();
            if done.is_some() {
                return done;
            }
        }
        None
    }
}

/// The connection by which the managing node accesses the node is idle: the node may use it.
#[test]
fn a_controlled_node_reads_objects_of_the_managing_node() {
    let mut cable = Cable::new(false);
    cable.run_until_operational();
    let own = Request::Read(profile::CYCLE_LENGTH_US);
    cable.mn.request(cable.now_ns, NODE, own.clone()).unwrap();
    cable.run(cable.now_ns + 50 * CYCLE_NS, |_| false);
    assert!(cable.mn.poll_completed().is_some_and(|(_, done)| done.result.is_ok()));

    let mut client = OwnClient::new(&cable);
    for _ in 0..2 {
        let read = Request::Read(profile::NMT_STATE);
        let done = client.execute(&mut cable, read).expect("an answer");
        assert_eq!(done.result, Ok(vec![NmtState::OPERATIONAL.0]));
    }
    // Afterwards the managing node opens another one.
    cable.mn.request(cable.now_ns, NODE, own).unwrap();
    cable.run(cable.now_ns + 100 * CYCLE_NS, |_| false);
    assert!(cable.mn.poll_completed().is_some_and(|(_, done)| done.result.is_ok()));
}

/// M30: 0x1F8A/1.
#[test]
fn the_first_poll_waits() {
    for (wait_ns, expected_ns) in [(0, 0), (1000, 0), (1001, 1001), (50_000, 50_000)] {
        let mut cable = Cable::new(false);
        cable.mn.set_object(profile::WAIT_SOC_PREQ_NS, &u32::to_le_bytes(wait_ns)).unwrap();
        cable.run_until_operational();
        cable.run(cable.now_ns + 10 * CYCLE_NS, |_| false);
        let mut soc_ns = None;
        let mut polls = 0;
        for (time_ns, frame) in &cable.sent {
            match message(frame).body {
                Body::Soc(_) => soc_ns = Some(*time_ns),
                Body::Preq(_) => {
                    assert_eq!(soc_ns.map(|soc| time_ns - soc), Some(expected_ns));
                    polls += 1;
                }
                _ => {}
            }
        }
        assert!(polls > 10);
    }
}
