//! Frames of wildcards, as tshark reads them.

use std::fs;
use std::process::Command;

use onbeat_testing::{TemporaryDirectory, require_that};
use onbeat_wire::Frame;

use super::{A, B, BROADCAST, HOST, READY, all, frame, in_vlan, mac, process};

const FIELDS: [&str; 7] = [
    "eth.dst",
    "eth.src",
    "vlan.id",
    "ieee8021cb.seq",
    "ieee8021cb.etype",
    "frame.len",
    "_ws.malformed",
];

#[test]
fn tshark_reads_every_field() {
    if !require_that(Command::new("tshark").arg("--version").output().is_ok(), "tshark") {
        return;
    }
    let mut sender = all(1);
    let mut frames = Vec::new();
    for destination in [mac(2), BROADCAST] {
        for len in [22, 46, 52, 60, 64, 1500, 1514, 9000] {
            let mut octets = frame(destination, mac(1), 0);
            octets.resize(len, 0);
            frames.extend([in_vlan(&octets, 5), in_vlan(&in_vlan(&octets, 5), 6), octets]);
        }
    }
    // The last numbers before the first.
    for _ in 0..65_536 - frames.len() / 2 {
        process(&mut sender, HOST, READY, &frames[0]);
    }
    let header: [u32; 6] = [0xa1b2_c3d4, 2 << 16 | 4, 0, 0, 65_535, 1];
    let mut capture: Vec<u8> = header.iter().flat_map(|word| word.to_be_bytes()).collect();
    let mut expected = Vec::new();
    let mut number = (65_536 - frames.len() / 2) as u16;
    for octets in &frames {
        let sent = process(&mut sender, HOST, READY, octets).unwrap();
        assert_eq!(sent.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [A, B]);
        let parsed = Frame::parse(octets).unwrap();
        let vlans: Vec<_> = parsed.vlans().map(|tag| tag.vid.to_string()).collect();
        for (_, copy) in sent {
            let len = copy.len() as u32;
            capture.extend([0, 0, len, len].iter().flat_map(|word| word.to_be_bytes()));
            capture.extend(copy);
            expected.push([
                parsed.destination().to_string(),
                parsed.source().to_string(),
                vlans.join(","),
                number.to_string(),
                "0x88b5".to_owned(),
                (octets.len() + 6).to_string(),
                String::new(),
            ]);
        }
        number = number.wrapping_add(1);
    }
    let directory = TemporaryDirectory::new("wildcard-tshark");
    let path = directory.path().join("r-tag.pcap");
    fs::write(&path, capture).unwrap();
    let fields: Vec<&str> = FIELDS.iter().flat_map(|field| ["-e", field]).collect();
    let output = Command::new("tshark")
        .args(["-n", "-r"])
        .arg(&path)
        .args(["-T", "fields"])
        .args(fields)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), expected.len());
    for (line, expected) in text.lines().zip(&expected) {
        let mut cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        // In decimal in some releases.
        if let Some(hexadecimal) = cells[3].strip_prefix("0x") {
            cells[3] = u16::from_str_radix(hexadecimal, 16).unwrap().to_string();
        }
        assert_eq!(cells, expected, "{FIELDS:?}");
    }
}
