//! Trailers and supervision frames of this codec, as tshark reads them.

use std::fs;
use std::path::Path;
use std::process::Command;

use onbeat_testing::prp::File;
use onbeat_testing::{TemporaryDirectory, require_that};
use onbeat_wire::prp::supervision::{self, DESTINATION, NodeKind, Repr as Supervision};
use onbeat_wire::prp::{Lan, Tail};
use onbeat_wire::{EtherType, Frame, MacAddress, VlanTag, ethernet};

const FIELDS: [&str; 13] = [
    "prp.trailer.prp_sequence_nr",
    "prp.trailer.prp_lan",
    "prp.trailer.prp_size",
    "prp.trailer.prp1_suffix",
    "hsr_prp_supervision.path",
    "hsr_prp_supervision.version",
    "hsr_prp_supervision.supervision_seqno",
    "hsr_prp_supervision.tlv.type",
    "hsr_prp_supervision.tlv.length",
    "hsr_prp_supervision.source_mac_address",
    "hsr_prp_supervision.red_box_mac_address",
    "hsr_prp_supervision.vdan_mac_address",
    "_ws.malformed",
];

/// A frame with its trailer, and the fields that tshark must show.
struct SentFrame {
    frame: Vec<u8>,
    fields: Vec<String>,
    /// tshark computes the size of the LSDU too.
    judged: bool,
}

impl SentFrame {
    /// A frame with its tail. `supervision` are the fields of a supervision frame.
    fn new(frame: Vec<u8>, sequence: u16, lan: Lan, supervision: Option<&Supervision>) -> Self {
        let parsed = Frame::parse(&frame).expect("a frame");
        let tail = Tail::of(&parsed, sequence, lan).expect("a tail");
        let size = frame.len() + tail.len() - parsed.lsdu_offset();
        // Like Linux, tshark takes one C-VLAN tag out of the size, and no other tag.
        let judged = match parsed.vlan() {
            None => true,
            Some(tag) => tag.tpid == EtherType::C_VLAN && parsed.vlans().count() == 1,
        };
        let mut fields = vec![sequence.to_string(), lan.id().to_string(), size.to_string()];
        fields.push("0x88fb".to_owned());
        fields.extend(match supervision {
            Some(repr) => fields_of(repr),
            None => vec![String::new(); 8],
        });
        fields.push(String::new());
        Self { frame: [&frame[..], &tail].concat(), fields, judged }
    }
}

fn fields_of(repr: &Supervision) -> Vec<String> {
    // One of these for each TLV, the last of which is the end.
    let redbox = repr.redbox.map(|_| ("30", "6"));
    let node = repr.kind.tlv_type().to_string();
    let tlvs = [Some((node.as_str(), "6")), redbox, Some(("0", "0"))].into_iter().flatten();
    let (types, lengths): (Vec<_>, Vec<_>) = tlvs.unzip();
    vec![
        repr.path.to_string(),
        repr.version.to_string(),
        repr.sequence.to_string(),
        types.join(","),
        lengths.join(","),
        repr.node.to_string(),
        repr.redbox.map(|mac| mac.to_string()).unwrap_or_default(),
        String::new(),
    ]
}

fn supervision_frame(repr: &Supervision, vlans: &[VlanTag]) -> Vec<u8> {
    let mut addresses = [0; ethernet::HEADER_LEN];
    let source = repr.redbox.unwrap_or(repr.node);
    let header = ethernet::Repr { destination: DESTINATION, source, ethertype: EtherType::PRP };
    header.emit(&mut addresses).unwrap();
    let mut frame = addresses[..ethernet::ADDRESSES_LEN].to_vec();
    for tag in vlans {
        let mut octets = [0; 4];
        tag.emit(&mut octets).unwrap();
        frame.extend(octets);
    }
    frame.extend(EtherType::PRP.to_octets());
    let mut octets = [0; supervision::MAX_LEN];
    let len = repr.emit(&mut octets).unwrap();
    frame.extend(&octets[..len]);
    frame
}

/// Trailers of the vectors' frames, and supervision frames of each kind, version and tagging.
fn frames() -> Vec<SentFrame> {
    let mut frames = Vec::new();
    for case in File::read().tail {
        if case.tail().is_some() {
            frames.push(SentFrame::new(case.frame(), case.sequence, case.lan(), None));
        }
    }
    let (node, redbox) = (MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 9]));
    let outer = VlanTag { tpid: EtherType::S_VLAN, ..VlanTag::new(6) };
    let taggings = [&[][..], &[VlanTag::new(5)], &[outer, VlanTag::new(5)]];
    let mut sequence = u16::MAX - 3;
    for kind in [NodeKind::DuplicateDiscard, NodeKind::DuplicateAccept, NodeKind::Hsr] {
        for redbox in [None, Some(node), Some(redbox)] {
            for vlans in taggings {
                for (lan, version) in [(Lan::A, supervision::VERSION), (Lan::B, 2)] {
                    let repr = Supervision { path: 0, version, sequence, kind, node, redbox };
                    let frame = supervision_frame(&repr, vlans);
                    // The trailer has its own sequence number.
                    frames.push(SentFrame::new(frame, !sequence, lan, Some(&repr)));
                    sequence = sequence.wrapping_add(1);
                }
            }
        }
    }
    frames
}

/// Writes frames in the format of libpcap, link type Ethernet.
fn write_capture(path: &Path, frames: &[SentFrame]) {
    let header: [u32; 6] = [0xa1b2_c3d4, 2 << 16 | 4, 0, 0, 65_535, 1];
    let mut octets: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
    for (second, SentFrame { frame, .. }) in frames.iter().enumerate() {
        let len = frame.len() as u32;
        octets.extend([second as u32, 0, len, len].iter().flat_map(|word| word.to_be_bytes()));
        octets.extend(frame);
    }
    fs::write(path, octets).expect("write a capture");
}

fn tshark(capture: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("tshark");
    // tshark reads no trailers unless this is enabled: other frames end like them by chance.
    command.args(["-n", "--enable-protocol", "prp", "-r"]).arg(capture).args(arguments);
    let output = command.output().expect("tshark");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn tshark_reads_every_field() {
    if !require_that(Command::new("tshark").arg("--version").output().is_ok(), "tshark") {
        return;
    }
    let frames = frames();
    let directory = TemporaryDirectory::new("prp-tshark");
    let capture = directory.path().join("prp.pcap");
    write_capture(&capture, &frames);
    let fields: Vec<&str> = FIELDS.iter().flat_map(|field| ["-e", field]).collect();
    let shown = tshark(&capture, &[&["-T", "fields"], &fields[..]].concat());
    assert_eq!(shown.lines().count(), frames.len());
    for (number, (line, expected)) in shown.lines().zip(&frames).enumerate() {
        let cells: Vec<&str> = line.split('\t').collect();
        assert_eq!(cells, expected.fields, "frame {}: {FIELDS:?}", number + 1);
    }

    // Sizes are judged in the tree of a frame only.
    let judged: Vec<SentFrame> = frames.into_iter().filter(|frame| frame.judged).collect();
    write_capture(&capture, &judged);
    let tree = tshark(&capture, &["-V"]);
    assert!(!tree.contains("WRONG") && !tree.contains("Malformed"), "{tree}");
    assert_eq!(tree.matches("[correct]").count(), judged.len(), "a size was not judged");
}
