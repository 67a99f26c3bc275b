//! Requirements of streams, as JSON of the YANG module ieee802-dot1q-cnc-config (IEEE 802.1Qdj-2024, 46.2).

use onbeat_config::text::mac_address;
use serde_json::Value;

use super::{Draft, DraftStream, Fault, clean, fault, list, number, text};

/// The module and its container.
pub(super) const MODULE: &str = "ieee802-dot1q-cnc-config:cnc-config";

/// Octets of header and FCS that max-frame-size does not count, and of a VLAN tag.
const FRAME_OCTETS: u64 = 18;
const TAG_OCTETS: u64 = 4;

/// Reads all streams of all domains.
pub(super) fn read(draft: &mut Draft, config: &Value) -> Result<(), Fault> {
    for domain in list(config, "domain") {
        for cuc in list(domain, "cuc") {
            for (position, stream) in list(cuc, "stream").iter().enumerate() {
                let id = text(stream, "stream-id").ok_or_else(|| {
                    fault(format!("stream[{position}]"), "there is no stream-id", "add stream-id")
                })?;
                let read = read_stream(draft, stream, id)?;
                draft.streams.push(read);
            }
        }
    }
    Ok(())
}

fn read_stream(draft: &Draft, stream: &Value, id: &str) -> Result<DraftStream, Fault> {
    let place = |key: &str| format!("stream[{id:?}].{key}");
    let nothing = Value::Null;
    let talker = stream.get("talker").unwrap_or(&nothing);
    let frame = list(talker, "data-frame-specification");
    let field = |name: &str| frame.iter().find_map(|field| field.get(name));
    let addresses = field("ieee802-mac-addresses").unwrap_or(&nothing);
    let address =
        text(addresses, "destination-mac-address").and_then(mac_address).ok_or_else(|| {
            fault(
                place("talker.data-frame-specification"),
                "there is no destination-mac-address",
                "add ieee802-mac-addresses: streams are identified by address and VLAN",
            )
        })?;
    let tag = field("ieee802-vlan-tag");
    let vlan = tag.and_then(|tag| tag.get("vlan-id")).and_then(Value::as_u64).unwrap_or(0);
    let traffic = talker.get("traffic-specification").unwrap_or(&nothing);
    let interval_us = interval_us(traffic).ok_or_else(|| {
        fault(
            place("talker.traffic-specification.interval"),
            "the interval is not a whole number of microseconds",
            "use numerator / denominator of at least 1 us",
        )
    })?;
    let frames = traffic.get("max-frames-per-interval").and_then(number).unwrap_or(1.0);
    if frames != 1.0 {
        return Err(fault(
            place("talker.traffic-specification.max-frames-per-interval"),
            format!("{frames} in an interval is not supported"),
            "describe one frame in an interval, or a stream for each frame",
        ));
    }
    let octets = traffic.get("max-frame-size").and_then(Value::as_u64).ok_or_else(|| {
        fault(place("talker.traffic-specification"), "there is no max-frame-size", "add it")
    })?;
    let header = FRAME_OCTETS + if tag.is_some() { TAG_OCTETS } else { 0 };
    let requirements = |of: &Value, key: &str| {
        of.get("user-to-network-requirements")?.get(key).and_then(Value::as_u64)
    };
    let trees = requirements(talker, "num-seamless-trees").unwrap_or(1).max(1);
    let listeners = list(stream, "listener");
    // All listeners get the strictest requirement; 0 means none.
    let delays = listeners.iter().chain([talker]);
    let delays = delays.filter_map(|of| requirements(of, "max-latency")).filter(|ns| *ns > 0);
    let stations = |of: &Value, key: String| {
        let interfaces = list(of, "end-station-interfaces");
        let interface = interfaces.first().ok_or_else(|| {
            fault(key.clone(), "there is no end-station-interfaces entry", "name the node")
        })?;
        let address = text(interface, "mac-address").and_then(mac_address);
        draft.station(&key, address, text(interface, "interface-name").unwrap_or_default())
    };
    let listeners = listeners.iter().enumerate();
    let listeners =
        listeners.map(|(number, of)| stations(of, place(&format!("listener[{number}]"))));
    Ok(DraftStream {
        name: clean(id),
        talker: stations(talker, place("talker"))?,
        listeners: listeners.collect::<Result<_, Fault>>()?,
        address,
        vlan: u16::try_from(vlan).ok().filter(|vlan| *vlan > 0),
        interval_us,
        size: (octets + header).max(64),
        paths: u8::try_from(trees).unwrap_or(u8::MAX),
        max_delay_us: delays.min().map(|ns| ns / 1000),
    })
}

/// The interval in microseconds, if it is a whole number of them.
fn interval_us(traffic: &Value) -> Option<u64> {
    let interval = traffic.get("interval")?;
    let part = |key: &str| interval.get(key).and_then(Value::as_u64);
    let (numerator, denominator) = (part("numerator")?, part("denominator")?);
    let us = numerator.checked_mul(1_000_000)?.checked_div(denominator)?;
    (us >= 1 && us * denominator == numerator * 1_000_000).then_some(us)
}
