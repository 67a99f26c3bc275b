//! Runs `vectors/frames.toml`; its header defines the cases.

use std::collections::BTreeSet;

use onbeat_testing::vectors::{self, octets};
use serde::Deserialize;
use toml::Table;

use crate::observe;

const NAME: &str = "frames.toml";

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
        let given = octets(&self.octets);
        if self.codec == "edit" {
            let edit = self.edit.as_ref().expect("an edit");
            let expected = match (&self.result, &self.error) {
                (Some(result), None) => Ok(octets(result)),
                (None, Some(error)) => Err(error.as_str()),
                _ => panic!("either a result or an error"),
            };
            assert_eq!(observe::edited(&given, edit), expected);
            return;
        }
        let expected = match (&self.fields, &self.error) {
            (Some(fields), None) => Ok(fields.clone()),
            (None, Some(error)) => Err(error.as_str()),
            _ => panic!("either fields or an error"),
        };
        let observed = observe::parsed(&self.codec, &given);
        assert_eq!(observed.as_ref().map(|(fields, _)| fields.clone()).map_err(|e| *e), expected);
        if let Ok((_, Some(emitted))) = observed {
            match &self.emits {
                Some(emits) => assert_eq!(emitted, octets(emits)),
                None if self.codec == "prp" => assert!(given.ends_with(&emitted)),
                None => assert_eq!(emitted, given[..emitted.len()]),
            }
        }
    }
}

#[test]
fn every_case() {
    let file: File = vectors::read(NAME);
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
    let file: File = vectors::read(NAME);
    let numbers: BTreeSet<u32> = file.case.iter().map(|case| case.number).collect();
    assert_eq!(numbers.len(), file.case.len(), "duplicate number");
    for codec in
        ["ethernet", "vlan", "rtag", "hsr", "prp", "arp", "ipv4", "ipv6", "udp", "frame", "edit"]
    {
        let of = || file.case.iter().filter(|case| case.codec == codec);
        assert!(of().any(|case| case.error.is_some()), "no refused case of {codec}");
        assert!(of().any(|case| case.error.is_none()), "no accepted case of {codec}");
    }
}
