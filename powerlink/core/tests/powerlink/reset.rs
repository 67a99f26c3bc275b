//! A managing node that resets the node in the middle of its configuration, as the reference stack does when two
//! StatusResponse in succession are late: it aborts and closes its connection after the reset, and opens another one.

use onbeat_powerlink::Node;
use onbeat_powerlink::cn::{ControlledNode, Event};
use onbeat_powerlink::nmt::State;
use onbeat_wire::powerlink::{Body, MessageType, NmtState, RequestedService, Service, multicast};

use crate::common::{CN_MAC, MN_MAC, controlled_node, message};

/// A frame of the managing node with these octets after its EtherType.
fn frame(destination: [u8; 6], octets: &[u8]) -> Vec<u8> {
    let mut frame = [&destination[..], &MN_MAC.0, &[0x88, 0xab], octets].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

fn soa(service: RequestedService) -> Vec<u8> {
    let state = NmtState::PRE_OPERATIONAL_1.0;
    frame(multicast::SOA.0, &[5, 255, 240, state, 0, 0, service.0, 1, 0x20])
}

/// Sequence and command layer of an SDO frame to the node.
fn sdo(octets: &[u8]) -> Vec<u8> {
    frame(multicast::ASND.0, &[&[6, 1, 240, 5], octets].concat())
}

/// Receive and send counters with their connection codes; reserved.
const fn sequence(received: u8, rcon: u8, sent: u8, scon: u8) -> [u8; 4] {
    [received << 2 | rcon, sent << 2 | scon, 0, 0]
}

/// A write of an octet: reserved, transaction, flags, WriteByIndex, size, reserved, index, sub-index, reserved.
fn write(transaction: u8, index: u16, value: u8) -> [u8; 13] {
    let [low, high] = index.to_le_bytes();
    [0, transaction, 0, 1, 5, 0, 0, 0, low, high, 0, 0, value]
}

struct Bench {
    node: ControlledNode,
    now_ns: u64,
}

impl Bench {
    /// Passes a frame to the node; returns its answer.
    fn pass(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        self.now_ns += 500_000;
        self.node.handle_frame(self.now_ns, frame);
        self.node.poll_transmit()
    }

    /// StatusRequest and invites, until the node has no more frames; returns the octets of its SDO frames.
    fn sdo_frames(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        loop {
            let status = self.pass(&soa(RequestedService::STATUS_REQUEST)).expect("a status");
            let Body::Asnd(Service::StatusResponse(status)) = message(&status).body else {
                panic!("{}", message(&status))
            };
            if status.request.pending == 0 {
                return frames;
            }
            let sdo = self.pass(&soa(RequestedService::UNSPECIFIED_INVITE)).expect("it has one");
            frames.push(sdo[14 + 4..14 + 20].to_vec());
        }
    }

    /// Opens a connection, and writes to 0x1011/1 and 0x1600/0.
    fn configure(&mut self) {
        assert_eq!(self.pass(&sdo(&sequence(0, 0, 0, 1))), None);
        let frames = self.sdo_frames();
        assert_eq!(frames[0][..4], sequence(0, 1, 0, 1));
        self.pass(&sdo(&sequence(0, 1, 0, 2)));
        assert_eq!(self.sdo_frames()[0][..4], sequence(0, 2, 0, 2));
        let load = [0, 0, 0, 1, 8, 0, 0, 0, 0x11, 0x10, 1, 0, b'l', b'o', b'a', b'd'];
        self.pass(&sdo(&[&sequence(0, 2, 1, 2)[..], &load].concat()));
        let abort = &self.sdo_frames()[0];
        assert_eq!(abort[..4], sequence(1, 2, 1, 2));
        // NO_OBJECT: the node has no storage.
        assert_eq!((abort[6], &abort[12..]), (0xc0, &[0, 0, 2, 6][..]));
        self.pass(&sdo(&sequence(1, 2, 1, 2)));
        self.pass(&sdo(&[&sequence(1, 2, 2, 2)[..], &write(1, 0x1600, 0)].concat()));
    }
}

#[test]
fn a_node_that_is_reset_in_the_middle_of_a_write_is_configured_again() {
    let mut bench = Bench { node: controlled_node(1, CN_MAC), now_ns: 0 };
    bench.node.start(0);
    bench.pass(&soa(RequestedService::NO_SERVICE));
    for round in 0..3 {
        assert_eq!(bench.node.state(), State::PreOperational1);
        let ident = bench.pass(&soa(RequestedService::IDENT_REQUEST)).expect("its identity");
        assert!(matches!(message(&ident).body, Body::Asnd(Service::IdentResponse(_))));
        bench.configure();
        if round == 2 {
            break;
        }
        // NMTResetNode (E_NMT_NO_STATUS_RES) before the response was fetched, then the end of the connection.
        bench.pass(&frame(multicast::ASND.0, &[6, 1, 240, 4, 0x28, 0, 0x02, 0xf0]));
        assert_eq!(bench.node.state(), State::NotActive);
        bench.pass(&soa(RequestedService::NO_SERVICE));
        assert_eq!(bench.pass(&sdo(&sequence(1, 2, 2, 2))), None);
        let abort = [0, 1, 0x40, 1, 4, 0, 0, 0, 0x21, 0, 0, 8];
        bench.pass(&sdo(&[&sequence(1, 2, 3, 2)[..], &abort].concat()));
        bench.pass(&sdo(&sequence(1, 0, 3, 0)));
        assert_eq!(bench.sdo_frames(), Vec::<Vec<u8>>::new(), "a closed connection");
    }
    let response = &bench.sdo_frames()[0];
    assert_eq!((&response[..4], response[5], response[6]), (&sequence(2, 2, 2, 2)[..], 1, 0x80));
}

/// SoA with requests and an invite, of which the next SoA was received already, and a poll of a former cycle.
#[test]
fn a_request_whose_phase_is_over_is_not_answered() {
    let mut bench = Bench { node: controlled_node(1, CN_MAC), now_ns: 0 };
    bench.node.start(0);
    bench.pass(&soa(RequestedService::NO_SERVICE));
    bench.pass(&sdo(&sequence(0, 0, 0, 1)));
    for service in [
        RequestedService::IDENT_REQUEST,
        RequestedService::STATUS_REQUEST,
        RequestedService::UNSPECIFIED_INVITE,
    ] {
        bench.node.handle_late_frame(bench.now_ns, &soa(service));
        assert_eq!(bench.node.poll_transmit(), None, "{service}");
    }
    let frames = bench.sdo_frames();
    assert_eq!(frames.len(), 1, "the answer to the connection request stays queued");
    assert!(bench.pass(&soa(RequestedService::IDENT_REQUEST)).is_some());

    bench.pass(&frame(multicast::SOC.0, &[1, 255, 240]));
    let poll = frame(CN_MAC.0, &[3, 1, 240, 0, 0, 0, 0, 0, 0, 0]);
    bench.node.handle_late_frame(bench.now_ns, &poll);
    assert_eq!(bench.node.poll_transmit(), None);
    assert!(bench.pass(&poll).is_some_and(|response| response[14] == MessageType::PRES.0));
    // Each is counted; they are reported at most once per second.
    assert_eq!(bench.node.late_requests(), 4);
    let events = std::iter::from_fn(|| bench.node.poll_event());
    let late: Vec<_> = events.filter(|event| matches!(event, Event::LateRequest(_))).collect();
    assert_eq!(late, [Event::LateRequest(1)]);
}

/// A node that is turned on beside a running cycle: the first request is in the cycle of its first SoC.
#[test]
fn a_first_ident_response_has_the_state_of_the_node() {
    let mut bench = Bench { node: controlled_node(1, CN_MAC), now_ns: 0 };
    bench.node.start(0);
    assert_eq!(bench.pass(&frame(multicast::SOC.0, &[1, 255, 240])), None);
    let ident = bench.pass(&soa(RequestedService::IDENT_REQUEST)).expect("its identity");
    let Body::Asnd(Service::IdentResponse(ident)) = message(&ident).body else { panic!() };
    assert_eq!(ident.state, NmtState::PRE_OPERATIONAL_1);
}
