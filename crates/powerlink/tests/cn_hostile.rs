//! A controlled node on a bus where anybody says anything.

mod common;

use common::{CN_MAC, controlled_node};
use onbeat_wire::powerlink::{Message, NodeId};
use proptest::prelude::*;

/// Messages that are whole, with fields of any value; and octets of any kind.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![Just(1u8), Just(3), Just(4), Just(5), Just(6), any::<u8>()];
    let node = prop_oneof![Just(1u8), Just(240), Just(255), any::<u8>()];
    let service = prop_oneof![1..=5u8, Just(0x1d), any::<u8>()];
    let body = prop::collection::vec(prop_oneof![Just(0u8), 0..=3u8, any::<u8>()], 0..80);
    (kind, node.clone(), node, service, body).prop_map(|(kind, to, from, service, body)| {
        let header = [kind, to, from, service];
        [&CN_MAC.0[..], &[2, 0, 0, 0, 0, 9], &[0x88, 0xab], &header, &body].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// No frame makes the node panic, send what is no message or in another's name, wait for a time
    /// that has passed, or gather frames without a bound.
    #[test]
    fn frames_of_any_kind(frames in prop::collection::vec((octets(), 0..30_000_000u64), 0..200)) {
        let mut node = controlled_node(1, CN_MAC);
        let mut now_ns = 0;
        node.start(now_ns);
        for (frame, step_ns) in frames {
            now_ns += step_ns;
            while let Some(deadline) = node.next_deadline_ns().filter(|at| *at <= now_ns) {
                node.handle_deadline(deadline);
                prop_assert!(node.next_deadline_ns().is_none_or(|next| next > deadline));
            }
            node.handle_frame(now_ns, &frame);
            let mut sent = 0;
            while let Some(frame) = node.poll_transmit() {
                sent += 1;
                prop_assert!(frame.len() >= 60);
                prop_assert_eq!(&frame[6..12], &CN_MAC.0);
                let message = Message::parse(&frame[14..]).unwrap();
                prop_assert_eq!(message.source, NodeId(1));
            }
            prop_assert!(sent <= 1, "one frame for each that was received");
            while node.poll_event().is_some() {}
        }
    }
}
