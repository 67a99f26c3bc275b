//! Runs `vectors/frames.toml`; its head says what the cases mean.

use std::collections::BTreeSet;

use crate::observe;
use serde::Deserialize;
use toml::Table;

/// The cases, in the package's neighbourhood.
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/frames.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    number: u32,
    name: String,
    codec: String,
    octets: String,
    edit: Option<Table>,
    result: Option<String>,
    emits: Option<String>,
    error: Option<String>,
    fields: Option<Table>,
}

impl Case {
    fn check(&self) {
        let octets = hex(&self.octets);
        if self.codec == "edit" {
            let edit = self.edit.as_ref().expect("what to change");
            let expected = match (&self.result, &self.error) {
                (Some(result), None) => Ok(hex(result)),
                (None, Some(error)) => Err(error.as_str()),
                _ => panic!("either a result or an error"),
            };
            assert_eq!(observe::edited(&octets, edit), expected);
            return;
        }
        let expected = match (&self.fields, &self.error) {
            (Some(fields), None) => Ok(fields.clone()),
            (None, Some(error)) => Err(error.as_str()),
            _ => panic!("either fields or an error"),
        };
        let observed = observe::parsed(&self.codec, &octets);
        assert_eq!(observed.as_ref().map(|(fields, _)| fields.clone()).map_err(|e| *e), expected);
        if let Ok((_, Some(emitted))) = observed {
            match &self.emits {
                Some(emits) => assert_eq!(emitted, hex(emits)),
                None if self.codec == "prp" => assert!(octets.ends_with(&emitted)),
                None => assert_eq!(emitted, octets[..emitted.len()]),
            }
        }
    }
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| *c != ' ')
        .map(|c| c.to_digit(16).unwrap_or_else(|| panic!("{c:?} in {text:?}")))
        .collect();
    assert!(digits.len() % 2 == 0, "half an octet: {text:?}");
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

#[test]
fn every_case() {
    let text = std::fs::read_to_string(PATH).expect(PATH);
    let file: File = toml::from_str(&text).expect(PATH);
    let mut failed = Vec::new();
    for case in &file.case {
        if std::panic::catch_unwind(|| case.check()).is_err() {
            failed.push(format!("case {} ({}: {})", case.number, case.codec, case.name));
        }
    }
    assert!(failed.is_empty(), "failed: {failed:#?}");
}

#[test]
fn the_file_covers_every_codec_under_unique_numbers() {
    let text = std::fs::read_to_string(PATH).expect(PATH);
    let file: File = toml::from_str(&text).expect(PATH);
    let numbers: BTreeSet<u32> = file.case.iter().map(|case| case.number).collect();
    assert_eq!(numbers.len(), file.case.len(), "a number twice");
    for codec in
        ["ethernet", "vlan", "rtag", "hsr", "prp", "arp", "ipv4", "ipv6", "udp", "frame", "edit"]
    {
        let of = || file.case.iter().filter(|case| case.codec == codec);
        assert!(of().any(|case| case.error.is_some()), "no refused case of {codec}");
        assert!(of().any(|case| case.error.is_none()), "no accepted case of {codec}");
    }
}
