//! Values of every length, read and written by SDO on a bus. tshark reads their frames.

use std::process::Command;

use onbeat_powerlink::mn::Step;
use onbeat_powerlink::od::{Abort, id};
use onbeat_powerlink::sdo::{MAX_TRANSFER, Request};
use onbeat_sim::{CapturedFrame, Conditions, DATA, Transfers};
use onbeat_testing::{TemporaryDirectory, require_that, vectors};
use onbeat_wire::powerlink::{Body, Message, Sdo, Segmentation, Service};
use serde::Deserialize;

use crate::{CYCLE_NS, ONE, SECOND_NS};

const LENGTHS: [usize; 14] =
    [1, 4, 5, 248, 249, 252, 253, 256, 257, 600, 700, 5_000, 65_536, MAX_TRANSFER];

fn every_length(conditions: Conditions) -> Transfers {
    let mut transfers = Transfers::new(conditions, 5);
    for len in LENGTHS {
        let value = Transfers::value(len);
        let read = transfers.write_and_read(&value);
        assert!(read == Ok(value), "{len} octets: {:?}", read.map(|read| read.len()));
    }
    transfers
}

#[test]
fn every_length_is_written_and_read() {
    let transfers = every_length(Conditions::CLEAN);
    assert_eq!(transfers.network.checker.violations(), []);
    assert!(transfers.network.is_operational());
}

#[test]
fn every_length_is_written_and_read_under_loss() {
    let mut transfers = every_length(Conditions { loss_per_million: 10_000, ..Conditions::CLEAN });
    assert!(transfers.network.bus.lost() > 1_000);
    transfers.network.bus.conditions = Conditions::CLEAN;
    transfers.run(SECOND_NS);
    assert!(transfers.network.is_operational());
}

/// Either end aborts, the node loses its power, or its cable: the next transfer is complete.
#[test]
fn a_transfer_ends_early() {
    let long = || Request::Write(DATA, Transfers::value(20_000).into());
    let mut transfers = Transfers::new(Conditions::CLEAN, 5);
    let usable = |transfers: &mut Transfers| {
        let value = Transfers::value(700);
        assert_eq!(transfers.write_and_read(&value), Ok(value));
    };
    for request in [long(), Request::Read(DATA)] {
        assert_eq!(transfers.request(long()).result, Ok(vec![]));
        transfers.start(request);
        transfers.run(20 * CYCLE_NS);
        let now_ns = transfers.network.bus.now_ns();
        transfers.network.managing().abort_request(now_ns, ONE, Abort::LOCAL);
        assert_eq!(transfers.complete().result, Err(Abort::LOCAL));
        usable(&mut transfers);
    }
    let refused = Request::Write(id(0x1006, 0), Transfers::value(20_000).into());
    let before = transfers.frames.len();
    assert_eq!(transfers.request(refused).result, Err(Abort::TOO_LONG));
    assert!(transfers.frames.len() < before + 16, "refused at its first segment");
    usable(&mut transfers);

    transfers.start(long());
    transfers.run(20 * CYCLE_NS);
    transfers.network.power(ONE, true);
    assert_eq!(transfers.complete().result, Err(Abort::TIME_OUT));
    let step = |transfers: &mut Transfers| transfers.network.managing().step(ONE);
    assert_ne!(step(&mut transfers), Some(Step::Operational));
    assert!(transfers.network.run_until(60 * SECOND_NS, |network| network.is_operational()));
    usable(&mut transfers);
}

/// The vectors, made by `vectors/powerlink/transfers`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DissectedFrame {
    malformed: u32,
    repeated: u32,
    fields: Vec<String>,
    frames: Vec<Vec<i64>>,
}

/// A field of a frame, by its name in the vectors; `None`: not in the frame.
fn field(name: &str, source: u8, sdo: &Sdo<'_>) -> Option<i64> {
    let (receive, send) = (sdo.sequence.receive, sdo.sequence.send);
    let of_sequence = match name {
        "source" => source,
        "receive" => receive.number,
        "receive-con" => receive.connection as u8,
        "send" => send.number,
        "send-con" => send.connection as u8,
        _ => return of_command(name, sdo),
    };
    Some(of_sequence.into())
}

fn of_command(name: &str, sdo: &Sdo<'_>) -> Option<i64> {
    let command = sdo.command?;
    let (segmentation, data_size) = match command.segmentation {
        Segmentation::Expedited => (0, None),
        Segmentation::Initiate { data_size } => (1, Some(data_size)),
        Segmentation::Segment => (2, None),
        Segmentation::Complete => (3, None),
    };
    Some(match name {
        "transaction" => command.transaction.into(),
        "response" => command.response.into(),
        "abort" => command.abort.into(),
        "segmentation" => segmentation,
        "command" => command.command.0.into(),
        "segment-size" => command.segment_size() as i64,
        "data-size" => data_size?.into(),
        "index" => command.object()?.0.into(),
        "sub-index" => command.object()?.1.into(),
        other => panic!("{other}"),
    })
}

/// Checks that tshark reads the fields of this codec in each frame.
fn compare(frames: &[CapturedFrame], dissected: &DissectedFrame) {
    assert_eq!(dissected.malformed, 0);
    assert_eq!(frames.len(), dissected.frames.len());
    for (n, (frame, theirs)) in frames.iter().zip(&dissected.frames).enumerate() {
        let message = Message::parse(&frame.octets[14..]).unwrap();
        let Body::Asnd(Service::Sdo(sdo)) = message.body else { panic!("{message}") };
        for (name, theirs) in dissected.fields.iter().zip(theirs) {
            let ours = field(name, message.source.0, &sdo);
            // Of a response, it shows the object of its request. It shows no command without a segment.
            let shown = *theirs != -1 && !(name.ends_with("index") && ours.is_none());
            assert!(!shown || ours == Some(*theirs), "frame {}: {name} {theirs}, {message}", n + 1);
        }
        // What it does not show is not in the frame, or 0.
        let size = sdo.command.map_or(0, |command| command.segment_size());
        assert!(size == 0 || theirs[10] != -1, "frame {}: {message}", n + 1);
    }
}

#[test]
fn the_frames_are_those_that_tshark_has_read() {
    let mut transfers = Transfers::new(Conditions::CLEAN, 1);
    transfers.record();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/powerlink/transfers.pcap");
    let capture = std::fs::read(path).unwrap();
    assert!(capture == transfers.capture(), "another capture; run vectors/powerlink/transfers");
    let dissected: DissectedFrame = vectors::read("powerlink/transfers.toml");
    assert_eq!((dissected.repeated, &dissected.fields[10][..]), (0, "segment-size"));
    compare(&transfers.frames, &dissected);
}

/// The search for a diagnostic device leaves the phases to a transfer.
#[test]
fn a_transfer_has_nearly_every_asynchronous_phase() {
    let mut transfers = Transfers::new(Conditions::CLEAN, 1);
    let begun_ns = transfers.network.bus.now_ns();
    transfers.request(Request::Write(DATA, Transfers::value(50_000).into())).result.unwrap();
    let cycles = (transfers.network.bus.now_ns() - begun_ns) / 1_000_000;
    let frames = transfers.frames.len() as u64;
    assert!(frames * 5 >= cycles * 4, "{frames} frames in {cycles} cycles");
}

/// Lengths and commands of the longest transfers: too long for a committed capture.
#[test]
fn tshark_reads_the_longest_transfers() {
    let there = |program| Command::new(program).arg("--version").output().is_ok();
    if !require_that(there("tshark") && there("python3"), "tshark and python3") {
        return;
    }
    let mut transfers = Transfers::new(Conditions::CLEAN, 1);
    for len in [65_536, MAX_TRANSFER] {
        let value = Transfers::value(len);
        assert!(transfers.write_and_read(&value) == Ok(value), "{len}");
    }
    let directory = TemporaryDirectory::new("sdo-transfers");
    let file = directory.file("transfers.pcap");
    std::fs::write(&file, transfers.capture()).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/powerlink/transfers");
    let read = Command::new("python3").arg(script).arg(&file).output().unwrap();
    let text = String::from_utf8(read.stdout).unwrap();
    let dissected: DissectedFrame = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    compare(&transfers.frames, &dissected);
}
