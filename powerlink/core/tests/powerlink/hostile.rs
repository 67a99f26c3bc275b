//! Nodes on a bus with arbitrary messages from arbitrary senders.

use crate::common::{CN_MAC, MN_MAC, controlled_node};
use onbeat_powerlink::Node;
use onbeat_powerlink::mn::{Config, ManagingNode};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink::od::profile::{self, Identity};
use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Message, NetTime, NodeId};
use proptest::prelude::*;

/// Messages of any kind, from existing and other nodes, with small numbers in their fields and with any.
fn frame(to: MacAddress) -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![1u8, 3, 4, 5, 5, 6, 6, 6, 7, 13]);
    let node = prop::sample::select(vec![1u8, 2, 240, 253, 255]);
    let service = prop::sample::select(vec![1u8, 2, 3, 4, 5, 0x1d, 0xa0]);
    let small = prop::collection::vec(0..=3u8, 60);
    let any = prop::collection::vec(any::<u8>(), 0..60);
    (kind, node.clone(), node, service, prop_oneof![small, any]).prop_map(
        move |(kind, destination, source, service, body)| {
            let header = [kind, destination, source, service];
            [&to.0[..], &[2, 0, 0, 0, 0, source], &[0x88, 0xab], &header, &body].concat()
        },
    )
}

/// Frames, and the time since the previous one.
fn frames(to: MacAddress) -> impl Strategy<Value = Vec<(Vec<u8>, u64)>> {
    prop::collection::vec((frame(to), 0..30_000_000u64), 0..100)
}

/// Checks the frames of a node; returns their number.
fn check(node: NodeId, mac: MacAddress, sent: &mut dyn FnMut() -> Option<Vec<u8>>) -> usize {
    let frames = std::iter::from_fn(sent).map(|frame| {
        assert!((60..=1514).contains(&frame.len()));
        assert_eq!(frame[6..12], mac.0);
        assert_eq!(Message::parse(&frame[14..]).unwrap().source, node);
    });
    frames.count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// No input makes the node panic, send an invalid message or another source, wait for a past deadline, or
    /// answer one frame with several.
    #[test]
    fn a_controlled_node(frames in frames(CN_MAC)) {
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
            prop_assert!(check(NodeId(1), CN_MAC, &mut || node.poll_transmit()) <= 1);
            while node.poll_event().is_some() {}
        }
    }

    /// No input makes the node panic, send an invalid message or another source, or stop.
    #[test]
    fn a_managing_node(frames in frames(MN_MAC)) {
        let nodes = [NodeId(1), NodeId(2)];
        let objects = profile::managing_node(&Identity::default(), 10_000, &nodes).unwrap();
        let mut node = ManagingNode::new(Config { mac: MN_MAC, objects }).unwrap();
        let mut now_ns = 0;
        node.start(now_ns, NetTime::default());
        // It listens for a second before it sends.
        let listened = (vec![0; 60], 1_200_000_000);
        for (frame, step_ns) in [listened].into_iter().chain(frames) {
            now_ns += step_ns;
            while let Some(deadline) = node.next_deadline_ns().filter(|at| *at <= now_ns) {
                node.handle_deadline(deadline);
                prop_assert!(node.next_deadline_ns().is_some_and(|next| next > deadline));
                check(NodeId::MN, MN_MAC, &mut || node.poll_transmit());
            }
            node.handle_frame(now_ns, &frame);
            // At most a SoA, a command or an SDO frame after it, and a poll.
            prop_assert!(check(NodeId::MN, MN_MAC, &mut || node.poll_transmit()) <= 3);
            prop_assert!(node.next_deadline_ns().is_some());
            while node.poll_event().is_some() {}
        }
        prop_assert_ne!(node.state(), State::NotActive);
    }
}
