//! Streams -> JSON -> streams.

mod random_streams;
mod refusals;

use std::collections::BTreeMap;

use onbeat_frer::spec::Stream;
use onbeat_yang::{KeptHandles, StreamHandles, check_kept, configuration, handles, streams};
use proptest::prelude::*;
use random_streams::{interfaces, nodes, normal};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_document_has_all_of_the_streams(streams_before in nodes()) {
        let interfaces = interfaces();
        let none = KeptHandles::new();
        let own: Vec<_> = handles(&streams_before, &none).collect();
        let (document, _) = configuration(&interfaces, &streams_before, &none);
        let names: BTreeMap<u32, String> = own.iter()
            .zip(&streams_before)
            .flat_map(|(handles, stream)| {
                handles.members.iter().map(|handle| (*handle, stream.name.clone()))
            })
            .collect();
        let expected: Vec<Stream> = streams_before.into_iter().map(normal).collect();
        let text = serde_json::to_string(&document).unwrap();
        let document = serde_json::from_str(&text).unwrap();
        for node in [None, Some(&interfaces[..])] {
            let read = streams(&document, node, &names);
            let read = read.unwrap_or_else(|faults| panic!("{faults}\n{text}"));
            prop_assert_eq!(&read.streams, &expected);
            // Entries with handles of their own are last.
            let of_members = |all: &[StreamHandles]| all.iter().map(|own| own.members.clone()).collect::<Vec<_>>();
            prop_assert_eq!(of_members(&read.handles), of_members(&own));
            prop_assert_eq!(check_kept(&document, &interfaces, &read), Ok(()));
        }
    }
}
