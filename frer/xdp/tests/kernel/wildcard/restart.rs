//! Tables that outlive the daemon.

use super::{A, B, HOST, KernelNode, MAX_NODES, READY, START, VLAN, all, axes, frame, mac};
use crate::prp;
use crate::restart::with_private_bpffs;

#[test]
fn a_restart_keeps_numbers_and_senders() {
    with_private_bpffs(|directory| {
        let wildcards = [axes(), all(MAX_NODES)];
        let mut node = KernelNode::open(Some(directory), START);
        node.set(&wildcards);
        node.at(READY);
        let mut number = 0;
        for round in 0..3 {
            for vlans in [&[][..], &[VLAN]] {
                assert_eq!(node.draws(vlans), number);
                number += 1;
                assert!(node.accepts(A, 9, vlans, number));
                assert!(!node.accepts(B, 9, vlans, number));
            }
            let before = node.read();
            // Without the daemon, and until it has set the wildcards again.
            let KernelNode { node: former, programs, now_ns } = node;
            drop(former);
            let numbered = programs[0].run(&[], &frame(mac(1), &[VLAN], None)).frame;
            assert_eq!(numbered, frame(mac(1), &[VLAN], Some(number)));
            number += 1;
            node = KernelNode::open(Some(directory), now_ns);
            assert_eq!(node.draws(&[]), number);
            number += 1;
            assert!(!node.accepts(B, 9, &[], number - 3));
            node.set(&wildcards);
            let after = node.read();
            for (before, after) in before.iter().zip(&after) {
                assert_eq!(before.name, after.name);
                assert_eq!(before.link.nodes[0].mac, after.link.nodes[0].mac);
                let numbered = before.link.host.numbered + 1;
                assert_eq!(
                    (after.link.host.numbered, after.silence_ms),
                    (numbered, None),
                    "{round}"
                );
            }
        }
        // Their names decide, and one that is gone leaves nothing behind.
        let now_ns = node.now_ns;
        drop(node);
        let mut node = KernelNode::open(Some(directory), now_ns);
        node.set(&wildcards[..1]);
        assert_eq!(node.read().len(), 1);
        assert_eq!(node.sends(HOST, &frame(mac(1), &[], None)), None);
        assert_eq!(node.draws(&[VLAN]), number);
        // A PRP node after it, whose ports have other roles.
        drop(node);
        let mut node = KernelNode::open(Some(directory), now_ns);
        let lre = prp::parameters(MAX_NODES);
        node.node.plane.set_lre(&node.node.names, Some(&lre)).unwrap();
        node.node.plane.set_wildcards(&node.node.names, &[]).unwrap();
        let reading = node.node.plane.read_lre().unwrap().expect("an entity");
        assert_eq!(reading.nodes.len(), 0);
        // And wildcards again, of new tables.
        drop(node);
        let mut node = KernelNode::open(Some(directory), now_ns);
        node.node.plane.set_lre(&node.node.names, None).unwrap();
        node.set(&wildcards);
        assert!(node.read().iter().all(|reading| reading.link.nodes.is_empty()));
        assert!(node.accepts(A, 9, &[], 1));
        assert!(!node.accepts(B, 9, &[], 1));
    });
}
