//! State of a node -> JSON, beside its configuration.

use std::collections::BTreeMap;

use onbeat_frer::counters::Counters;
use onbeat_frer::spec::{Identification, PortId, Stream};
use serde_json::{Map, Value, json};

use crate::handles::{KeptHandles, handles};
use crate::model::{Interface, InterfaceState, LinkState, NodeState};
use crate::{FRER, INTERFACES, MASK_AND_MATCH, STREAM_IDENTIFICATION};

/// A sequence number that no packet has (10.4.1.8).
const INVALID_SEQUENCE_VALUE: u32 = 1 << 16;

/// Counters by direction (out-facing: true) and handle.
type Counts = BTreeMap<(bool, u32), Map<String, Value>>;

/// The counters of an interface.
#[derive(Debug, Default)]
struct InterfaceCounts {
    identification: Counts,
    frer: Counts,
    errored: u64,
}

/// Adds the state of a node to its configuration. The streams are those of the configuration, in their order.
///
/// # Panics
/// If the state has fewer interfaces or streams than the configuration.
pub fn state<'s>(
    document: &mut Value,
    interfaces: &[Interface],
    (streams, kept): (impl IntoIterator<Item = &'s Stream, IntoIter: Clone>, &'s KeptHandles),
    state: &NodeState,
) {
    let streams = streams.into_iter();
    let counts = count((streams.clone(), kept), state);
    let entries = document[format!("{INTERFACES}:interfaces")]["interface"].as_array_mut();
    let of_interfaces = entries.into_iter().flatten().zip(&state.interfaces).enumerate();
    for (number, (entry, interface)) in of_interfaces {
        let empty = InterfaceCounts::default();
        let counts = u8::try_from(number).ok().and_then(|id| counts.get(&PortId(id)));
        add_interface(entry, interface, counts.unwrap_or(&empty), &state.counted_since);
    }
    let recoveries = document.get_mut(format!("{FRER}:frer"));
    let recoveries = recoveries.and_then(|frer| frer.get_mut("sequence-recovery")?.as_array_mut());
    for recovery in recoveries.into_iter().flatten() {
        recovery["invalid-sequence-value"] = json!(INVALID_SEQUENCE_VALUE);
    }
    let mut ports: Vec<PortId> = streams
        .flat_map(|stream| &stream.members)
        .filter(|member| matches!(member.identification, Identification::MaskAndMatch(_)))
        .map(|member| member.port)
        .collect();
    ports.sort_unstable();
    ports.dedup();
    if !ports.is_empty() {
        let longest = ports.iter().map(|port| {
            let Interface { name, longest_mask } = &interfaces[usize::from(port.0)];
            json!({ "port-name": name, "port-msdu-mask-max-length": longest_mask })
        });
        document[format!("{MASK_AND_MATCH}:per-port-msdu-mask-max-length")] = longest.collect();
    }
}

/// The counters of streams, by port, direction and handle.
fn count<'s>(
    (streams, kept): (impl Iterator<Item = &'s Stream> + Clone, &'s KeptHandles),
    state: &NodeState,
) -> BTreeMap<PortId, InterfaceCounts> {
    let mut ports: BTreeMap<PortId, InterfaceCounts> = BTreeMap::new();
    for ((stream, handles), counted) in
        streams.clone().zip(handles(streams, kept)).zip(&state.streams)
    {
        for ((member, &handle), counted) in
            stream.members.iter().zip(&handles.members).zip(&counted.members)
        {
            let port = ports.entry(member.port).or_default();
            let identified = port.identification.entry((true, handle)).or_default();
            set(identified, "input-pkts", counted.input_packets);
            port.errored += counted.errored;
            let frer = port.frer.entry((true, handle)).or_default();
            set(frer, "encode-errored-pkts", counted.errored);
            if let Some(counters) = &counted.individual {
                set_recovery(frer, counters);
            }
        }
        if let (Some(resets), Some(member)) = (counted.generation_resets, stream.members.first()) {
            let port = ports.entry(member.port).or_default();
            let frer = port.frer.entry((true, handles.members[0])).or_default();
            set(frer, "generation-reset", resets);
        }
        for (number, (egress, output)) in
            stream.egress.iter().zip(&counted.output_packets).enumerate()
        {
            let port = ports.entry(egress.port).or_default();
            // Frames of several members leave as one stream: their sum is that of the first member.
            let handle = handles.at_egress(number)[0];
            let identified = port.identification.entry((true, handle)).or_default();
            set(identified, "output-pkts", *output);
            if let Some(counters) = &counted.recovery {
                let frer = port.frer.entry((false, handles.members[0])).or_default();
                set_recovery(frer, counters);
            }
        }
    }
    ports
}

/// RFC 7951 writes 64-bit numbers as strings.
fn set(counters: &mut Map<String, Value>, name: &str, value: u64) {
    counters.insert(name.to_owned(), json!(value.to_string()));
}

fn set_recovery(entry: &mut Map<String, Value>, counters: &Counters) {
    for (name, value) in [
        ("rx-out-of-order-pkts", counters.out_of_order),
        ("rx-rogue-pkts", counters.rogue),
        ("rx-passed-pkts", counters.passed),
        // Duplicates alone: `discarded` also has the rogue packets, which the module adds in the sum of the port.
        ("rx-discarded-pkts", counters.discarded.saturating_sub(counters.rogue)),
        ("rx-lost-pkts", counters.lost),
        ("rx-tagless-pkts", counters.tagless),
        ("rx-resets", counters.resets),
        ("rx-latent-error-resets", counters.latent_error_resets),
    ] {
        set(entry, name, value);
    }
}

fn add_interface(
    entry: &mut Value,
    state: &InterfaceState,
    counts: &InterfaceCounts,
    counted_since: &str,
) {
    let oper = match state.link {
        LinkState::Up => "up",
        LinkState::Down => "down",
        LinkState::Missing => "not-present",
    };
    entry["oper-status"] = json!(oper);
    entry["admin-status"] = json!(if state.is_enabled { "up" } else { "down" });
    // A missing interface has no index.
    if state.index != 0 {
        entry["if-index"] = json!(state.index);
    }
    let list = |counts: &Counts| -> Vec<Value> {
        let entry = |(&(direction, handle), counters): (&(bool, u32), &Map<String, Value>)| {
            let mut entry = counters.clone();
            entry.insert("direction-out-facing".to_owned(), json!(direction));
            entry.insert("handle".to_owned(), json!(handle));
            Value::Object(entry)
        };
        counts.iter().map(entry).collect()
    };
    let number = |value: u64| value.to_string();
    entry["statistics"] = json!({
        "discontinuity-time": counted_since,
        format!("{STREAM_IDENTIFICATION}:stream-id"): {
            "per-port-counters": {
                "input-pkts": number(state.input_packets),
                "output-pkts": number(state.output_packets),
            },
            "per-port-per-stream-counters": list(&counts.identification),
        },
        format!("{FRER}:frer"): {
            "per-port-counters": {
                "rx-passed-pkts": number(state.passed),
                "rx-discarded-pkts": number(state.discarded),
                "encode-errored-pkts": number(counts.errored),
            },
            "per-port-per-stream-counters": list(&counts.frer),
        },
    });
}
