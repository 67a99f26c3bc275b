//! Whatever a configuration file holds, it is read or refused; it never ends the program.

use onbeat_node::config::Config;
use onbeat_wire::random::Random;
use proptest::prelude::*;

const GOOD: &[&str] = &[
    include_str!("../../../../examples/reference.toml"),
    include_str!("../../../../examples/listener-end-system.toml"),
    include_str!("../../../../examples/ladder/e.toml"),
    include_str!("../../../../examples/wildcards.toml"),
];

/// Text that a mutation inserts: pieces with and without a meaning in a configuration.
const PIECES: &[&str] = &[
    "\"",
    "'",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ",",
    "\n",
    "\r",
    "\0",
    "\u{1b}",
    "é",
    "\u{1f980}",
    "0",
    "-1",
    "65536",
    "1e9",
    "0x7fff_ffff_ffff_ffff",
    "nan",
    "true",
    "1979-05-27",
    "{n}",
    "#",
    "[[stream]]\n",
    "count = 65536\n",
    "step = { vlan = 1 }\n",
    "port = ",
    "member",
    "ff:ff:ff:ff:ff:ff",
];

fn check(text: &str) {
    match Config::parse(text, "random.toml") {
        Ok(config) => {
            if let Ok(warnings) = config.check(|port| u32::try_from(port.name.len()).ok()) {
                assert_eq!(warnings.to_string().is_empty(), warnings.count() == 0);
                assert_eq!(warnings.lines().count(), warnings.count());
            }
            for stream in &config.streams {
                assert_eq!(stream.validate(), Ok(()));
                for member in &stream.members {
                    config.port(member.port);
                }
            }
        }
        Err(error) => {
            let report = error.to_string();
            assert!(error.count() >= 1 && report.starts_with("random.toml:"), "{report}");
            // Nothing of the file reaches the terminal that the terminal would obey.
            assert!(!report.contains(|c: char| c.is_control() && c != '\n'), "{report:?}");
        }
    }
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn mutated_configurations_are_read_or_refused(
        base in 0..GOOD.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..30, 0..PIECES.len()), 1..8),
    ) {
        let mut text = GOOD[base].to_owned();
        for (at, length, piece) in edits {
            let start = floor(&text, at.index(text.len() + 1));
            let end = floor(&text, start + length).max(start);
            text.replace_range(start..end, PIECES[piece]);
        }
        check(&text);
    }

    #[test]
    fn lines_in_any_order_are_read_or_refused(base in 0..GOOD.len(), seed in any::<u64>(), length in 1usize..60) {
        let lines: Vec<&str> = GOOD[base].lines().collect();
        let mut random = Random::new(seed);
        let text: String = (0..length).map(|_| format!("{}\n", random.pick(&lines))).collect();
        check(&text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn any_prefix_is_read_or_refused(base in 0..GOOD.len(), at in any::<prop::sample::Index>()) {
        let text = GOOD[base];
        check(&text[..floor(text, at.index(text.len()))]);
    }
}
