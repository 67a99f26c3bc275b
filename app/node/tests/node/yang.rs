//! Streams: file -> YANG -> file.

use std::collections::BTreeMap;

use onbeat_frer::spec::{PortId, Stream};
use onbeat_node::config::{Config, configuration_text};
use onbeat_yang::{KeptHandles, handles};
use proptest::prelude::*;
use random_streams::{PORTS, interfaces, nodes, normal};

#[path = "../../../../manage/yang/src/tests/random_streams.rs"]
mod random_streams;

/// The text of a file with these streams.
fn text(streams: &[Stream], draining: &[usize]) -> String {
    let ports = (0..PORTS).map(|n| format!("[[port]]\nname = \"p{n}\"\ninterface = \"eth{n}\"\n"));
    let ports: String = ports.collect();
    let node = "[node]\nname = \"a\"\nbackend = \"packet\"\n";
    let config = Config::parse(&format!("{node}{ports}"), "a.toml").unwrap();
    configuration_text(&config.node, &config.ports, streams, |_| (draining, None))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn files_and_documents_have_the_same_streams(streams in nodes()) {
        let parse = |text: &str| {
            Config::parse(text, "a.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
        };
        let config = parse(&text(&streams, &[0]));
        prop_assert_eq!(&config.streams, &streams);
        prop_assert_eq!(config.draining_streams().count(), streams.len());
        prop_assert_eq!(config.port(PortId(1)).interface.as_str(), "eth1");

        let document = onbeat_node::yang::configuration(&config).document;
        let names: BTreeMap<u32, String> = handles(&streams, &KeptHandles::new())
            .zip(&streams)
            .flat_map(|(handles, stream)| {
                handles.members.into_iter().map(|handle| (handle, stream.name.clone()))
            })
            .collect();
        let read = onbeat_yang::streams(&document, Some(&interfaces()), &names);
        let read = read.unwrap_or_else(|faults| panic!("{faults}"));
        let back = parse(&text(&read.streams, &[]));
        let expected: Vec<Stream> = streams.into_iter().map(normal).collect();
        prop_assert_eq!(back.streams, expected);

        // What a document sets on a node without streams, as text of a file, is the document again.
        let none = text(&[], &[]);
        match onbeat_node::yang::difference(&document, &parse(&none), &[]) {
            Ok(set) => {
                let stored = parse(&(none + &set.text));
                let rest = onbeat_node::yang::difference(&document, &stored, &[]).unwrap();
                prop_assert!(rest.is_empty(), "{}", rest.text);
                let fixed = onbeat_node::yang::difference(&document, &stored, &stored.streams);
                prop_assert!(fixed.unwrap().is_empty());
            }
            // Members without a common function are streams of their own, which share no output.
            Err(faults) => prop_assert!(
                faults.0.iter().all(|fault| fault.message.starts_with("two members or outputs have handle")),
                "{faults}"
            ),
        }
    }
}
