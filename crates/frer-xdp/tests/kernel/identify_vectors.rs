//! Runs vectors/identify.toml in the kernel, but for what the kernel refuses: mask-and-match.

use onbeat_frer::spec::{Member, PortId, Stream};
use onbeat_frer_xdp::Error;

use crate::harness::{Node, XDP_PASS, XDP_REDIRECT, can_run, stream};
use crate::identify_cases::{MemberCase, hex, identification, vectors};

const PORT: u8 = 3;
const ELSEWHERE: usize = 2;

/// A stream for each member.
fn streams(members: &[MemberCase]) -> Vec<Stream> {
    let member = |case: &MemberCase| Member {
        port: PortId(PORT),
        identification: identification(case),
        individual: None,
    };
    let members = members.iter().map(member).enumerate();
    members.map(|(index, member)| stream(&format!("stream{index}"), vec![member], None)).collect()
}

fn has_mask(members: &[MemberCase]) -> bool {
    members.iter().any(|member| matches!(member, MemberCase::Mask { .. }))
}

/// How many frames each stream has taken.
fn taken(node: &Node, streams: &[Stream]) -> Vec<u64> {
    streams.iter().map(|stream| node.read(&stream.name).members[0].input).collect()
}

#[test]
fn identify() {
    if !can_run() {
        return;
    }
    let vectors = vectors();
    let mut node = Node::new(usize::from(PORT) + 1, 16);
    let (mut run, mut refused) = (0, 0);
    for case in &vectors.identify {
        let context = format!("identify {} ({})", case.number, case.name);
        let streams = streams(&case.members);
        node.apply(&[]);
        if has_mask(&case.members) {
            let error = node.plane.apply(&node.names, &streams).expect_err(&context);
            assert!(matches!(error, Error::Unsupported { .. }), "{context}: {error}");
            assert!(error.to_string().contains("mask-and-match"), "{context}: {error}");
            refused += 1;
            continue;
        }
        node.apply(&streams);
        let (ingress, elsewhere) = (node.ingress(PORT.into()), node.ingress(ELSEWHERE));
        for (name, expected) in &case.expect {
            let octets = hex(&vectors.frames[name]);
            let mut counted = taken(&node, &streams);
            let verdict = match usize::try_from(*expected) {
                Ok(index) => {
                    counted[index] += 1;
                    XDP_REDIRECT
                }
                Err(_) => XDP_PASS,
            };
            let result = ingress.run(&[], &octets);
            assert_eq!(result.frame, octets, "{context}: frame {name}");
            assert_eq!(result.verdict, verdict, "{context}: frame {name}");
            assert_eq!(taken(&node, &streams), counted, "{context}: frame {name}");
            assert_eq!(elsewhere.verdict(&octets), XDP_PASS, "{context}: frame {name} elsewhere");
        }
        run += 1;
    }
    eprintln!("{run} cases run, {refused} with mask-and-match refused");
    assert!(run >= 60 && refused >= 10);
}

#[test]
fn conflict() {
    if !can_run() {
        return;
    }
    let mut node = Node::new(usize::from(PORT) + 1, 16);
    for case in vectors().conflict {
        node.apply(&[]);
        let result = node.plane.apply(&node.names, &streams(&case.members));
        let context = format!("conflict {} ({})", case.number, case.name);
        match result {
            Err(Error::Conflict(_)) => assert!(case.conflict, "{context}"),
            Err(Error::Unsupported { .. }) => assert!(has_mask(&case.members), "{context}"),
            Err(error) => panic!("{context}: {error}"),
            Ok(_) => assert!(!case.conflict, "{context}"),
        }
    }
}
