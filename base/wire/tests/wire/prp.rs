//! Runs `vectors/prp.toml`; its header defines the cases.

use std::collections::BTreeSet;

use onbeat_testing::prp::File;
use onbeat_wire::Frame;
use onbeat_wire::prp::supervision::{self, SupervisionError};
use onbeat_wire::prp::{Lan, Tail};

use crate::observe::ErrorName;

impl ErrorName for SupervisionError {
    fn name(&self) -> &'static str {
        match self {
            SupervisionError::Truncated(error) => error.name(),
            SupervisionError::Version(_) => "version",
            SupervisionError::ObsoleteType(_) => "obsolete_type",
            SupervisionError::Length { .. } => "length",
            SupervisionError::Repeated(_) => "repeated",
            SupervisionError::NoNode => "no_node",
        }
    }
}

#[test]
fn tails() {
    for case in File::read().tail {
        let name = format!("case {} ({})", case.number, case.name);
        let octets = case.frame();
        let frame = Frame::parse(&octets).unwrap();
        assert_eq!(frame.lsdu_offset(), case.lsdu_offset, "{name}");
        let tail = Tail::of(&frame, case.sequence, case.lan());
        assert_eq!(tail.map(|tail| tail.to_vec()), case.tail(), "{name}");
        let Some(tail) = tail else { continue };

        let mut other = Tail::of(&frame, case.sequence, Lan::A).unwrap();
        other.set_lan(case.lan());
        assert_eq!(other, tail, "{name}");
        let sent = [&octets[..], &tail].concat();
        let trailer = Frame::parse(&sent).unwrap().prp().unwrap();
        assert_eq!((trailer.sequence, trailer.lan), (case.sequence, case.lan()), "{name}");
    }
}

#[test]
fn received_frames() {
    for case in File::read().received {
        let name = format!("case {} ({})", case.number, case.name);
        let octets = case.frame();
        let found = Frame::parse(&octets).unwrap().prp();
        assert_eq!(found.map_err(|error| error.name()), case.expected(), "{name}");
        let stripped = found.ok().map(|trailer| octets.len() - trailer.buffer_len());
        assert_eq!(stripped, case.stripped, "{name}");
    }
}

#[test]
fn supervision_frames() {
    for case in File::read().supervision {
        let name = format!("case {} ({})", case.number, case.name);
        let octets = case.octets();
        let found =
            supervision::View::new_checked(&octets).map(|view| supervision::Repr::parse(&view));
        assert_eq!(found.map_err(|error| error.name()), case.expected(), "{name}");
        match found {
            Ok(repr) => {
                let mut buffer = [0xa5; supervision::MAX_LEN];
                let len = repr.emit(&mut buffer).unwrap();
                assert_eq!(buffer[..len], case.emits(len), "{name}");
                assert!(!case.other_version, "{name}");
            }
            Err(error) => assert_eq!(error.is_other_version(), case.other_version, "{name}"),
        }
    }
}

#[test]
fn the_file_has_unique_numbers_and_every_error() {
    let File { tail, received, supervision } = File::read();
    let numbers = (tail.iter().map(|case| case.number))
        .chain(received.iter().map(|case| case.number))
        .chain(supervision.iter().map(|case| case.number));
    let count = tail.len() + received.len() + supervision.len();
    assert_eq!(numbers.collect::<BTreeSet<_>>().len(), count, "duplicate number");
    assert!(tail.iter().any(|case| case.tail().is_none()));
    let errors: BTreeSet<&str> = received.iter().filter_map(|case| case.expected().err()).collect();
    assert_eq!(errors, BTreeSet::from(["truncated", "suffix", "lan_id", "lsdu_size"]));
    let errors: BTreeSet<&str> =
        supervision.iter().filter_map(|case| case.expected().err()).collect();
    let all = ["truncated", "version", "obsolete_type", "length", "repeated", "no_node"];
    assert_eq!(errors, BTreeSet::from(all));
}
