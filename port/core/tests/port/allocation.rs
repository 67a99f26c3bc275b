//! Between opening and closing, frames come and go without memory being taken.
//!
//! ```text
//!   near: "p0" --------- far: "f0"
//!   each port in turn    a plain packet socket
//! ```

use crate::common::conformance::frame;
use crate::common::{BOUND, Cable, raw_socket, xdp};
use onbeat_link::{Backend, Filter, Port};
use onbeat_testing::memory::taken_by;
use onbeat_testing::{Feature, ForeignProgram, require_all};

onbeat_testing::count_allocations!();

#[test]
fn no_frame_takes_memory() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    assert_eq!(taken_by(|| drop(std::hint::black_box(Box::new(1)))), 1, "memory taken is counted");
    let cable = Cable::new();
    let _takes_answers = ForeignProgram::pass(cable.far.namespace(), "f0");
    let near = cable.near.namespace();
    for backend in [Backend::Packet, Backend::Xsk, Backend::Xdp] {
        let mut port = onbeat_link::open(backend, near, "p0", xdp::options()).unwrap();
        with(port.as_mut(), &cable);
    }
}

fn with(port: &mut dyn Port, cable: &Cable) {
    let peer = raw_socket(&cable.far, "f0");
    let mac = port.mac_address();
    let (sent, answer, request) =
        (frame(mac, mac, &[1; 46]), frame(mac, mac, &[2; 46]), frame(mac, mac, &[3; 46]));
    let [now, cyclic, response] = [(); 3].map(|()| port.allocate(60).unwrap());
    for (slot, frame) in [(now, &sent), (cyclic, &sent), (response, &answer)] {
        port.update(slot, frame).unwrap();
    }
    let filter = Filter::new(&request[..15], &[0xff; 15]).unwrap();
    let _response = port.respond(filter, response).unwrap();

    for _ in 0..300 {
        peer.send(&request);
        let taken = taken_by(|| {
            let bound = port.now().after(BOUND.as_nanos() as u64);
            port.update(cyclic, &sent).unwrap();
            port.send_every(cyclic, port.now(), 1_000_000).unwrap();
            port.send(now).unwrap();
            let (mut received, mut confirmed) = (0, 0);
            // The response, the frame sent now and one of a cycle.
            while received < 1 || confirmed < 3 {
                assert!(port.wait(bound).unwrap(), "received {received}, confirmed {confirmed}");
                while let Some(frame) = port.receive().unwrap() {
                    assert!(frame.answered && port.octets(&frame) == request);
                    port.release(frame);
                    received += 1;
                }
                while port.confirmation().unwrap().is_some() {
                    confirmed += 1;
                }
            }
            port.cancel(cyclic).unwrap();
            while port.confirmation().unwrap().is_some() {}
        });
        assert_eq!(taken, 0, "{}", port.capabilities().backend());
    }
    assert_eq!(port.diagnostics().unwrap().responses, 300);
}
