//! A `[[node]]` table.

use std::rc::Rc;

use onbeat_config::{Table, Value};
use onbeat_link::Backend;
use onbeat_powerlink::network::{MAX_SIGNALS, Network, Signal, Station};
use onbeat_powerlink::od::profile::{CONTROLLED_NODE_FEATURES, Identity};
use onbeat_powerlink::od::{Dictionary, ObjectId, id};
use onbeat_wire::powerlink::NodeId;
use onbeat_xdd::{Description, TYPES};

use super::cross::Reference;
use super::object::object;
use super::xdd::{self, Descriptions};
use super::{NodeHost, host};
use crate::{Pattern, Sender};

/// Default indices of inputs and outputs.
const INPUTS: u16 = 0x6000;
const OUTPUTS: u16 = 0x6200;

/// The profile of devices with digital and analog inputs and outputs (DS 401).
const DEVICE_TYPE: u32 = 0x000f_0191;

/// Maximum default timeout of a response: that of software on a busy host.
const PRES_TIMEOUT_US: u32 = 1000;

/// A node of a file.
pub(super) struct ReadNode<'a> {
    pub(super) station: Station,
    pub(super) host: NodeHost,
    /// Its outputs that other nodes send.
    pub(super) received: Vec<Reference<'a>>,
    /// Its device description.
    pub(super) device: Option<Rc<Description>>,
}

/// Reads a node; `None` without an id.
pub(super) fn read<'a>(
    value: &Value<'a>,
    network: &Network,
    descriptions: &mut Descriptions,
) -> Option<ReadNode<'a>> {
    let mut table = value.table()?;
    let node = table.require("id", "1").and_then(|value| value.number(1_u8..=239)).map(NodeId);
    let name = table.take("name").and_then(|value| name(&value));
    let name = name.unwrap_or_else(|| format!("node-{}", node.unwrap_or(NodeId::NONE)));
    let host = host(&mut table);
    let store = table.take("store").and_then(|value| descriptions.store(&value));
    let response = table.take("response").and_then(|value| response(&value, host.backend));
    let mandatory = table.take("mandatory").and_then(|value| value.flag()).unwrap_or(false);
    let multiplexed = table.take("multiplexed").and_then(|value| slot(&value, network));
    let (cycle_us, timeout) = (network.cycle_us, table.take("pres-timeout-us"));
    let timeout_us = timeout.and_then(|value| value.number(1..=cycle_us.min(1_000_000)));
    let timeout_us = timeout_us.unwrap_or((cycle_us / 4).min(PRES_TIMEOUT_US));
    let xdd = table.take("xdd");
    let device = xdd.as_ref().and_then(|value| descriptions.read(value));
    if xdd.is_some() && device.is_none() {
        // Further errors may follow from its unknown objects.
        return None;
    }
    let described = device.as_ref().map(|device| &device.objects);
    let identity = identity(table.take("identity"), &name, device.as_deref());
    let (inputs, input_patterns, _) = signals(&mut table, "input", INPUTS, described);
    let (outputs, output_patterns, received) = signals(&mut table, "output", OUTPUTS, described);
    let parameters = table.items("parameter");
    let own: Vec<(ObjectId, Vec<u8>)> = parameters.iter().filter_map(parameter).collect();
    // The parameters of this file have precedence over the device's.
    let is_own = |object| own.iter().any(|(own, _)| *own == object);
    let configured = device.iter().flat_map(|device| xdd::configuration(device));
    let concise = table.take("cdc").and_then(|value| descriptions.concise(&value));
    let configured = configured.chain(concise.unwrap_or_default());
    let mut parameters: Vec<_> = configured.filter(|(object, _)| !is_own(*object)).collect();
    parameters.extend(own);
    table.finish();
    let soc_to_poll_ns = device.as_ref().and_then(|of| of.features.number("NMTCNSoC2PReq"));
    let soc_to_poll_ns = soc_to_poll_ns.unwrap_or(0).try_into().unwrap_or(u32::MAX);
    let node = node?;
    let received = received.into_iter().map(|reference| reference.of(node)).collect();
    let station = Station {
        node,
        mandatory,
        identity,
        pres_timeout_ns: timeout_us * 1000,
        soc_to_poll_ns,
        multiplexed: multiplexed.unwrap_or(0),
        inputs,
        outputs,
        // Resolved when all nodes are known.
        received: Vec::new(),
        described: described.cloned(),
        parameters,
    };
    let host = NodeHost { host, store, response, inputs: input_patterns, outputs: output_patterns };
    Some(ReadNode { station, host, received, device })
}

/// The sender of responses to polls.
fn response(value: &Value<'_>, backend: Backend) -> Option<Sender> {
    let sender = value.choice(&Sender::ALL)?;
    if sender == Sender::Automatic && !backend.answers() {
        let what = format!("back end {backend} does not support automatic responses");
        value.fault(what, "use backend = \"xdp\" or \"module\", or response = \"process\"");
        return None;
    }
    Some(sender)
}

/// The cycle of a multiplexed cycle in which a node is polled.
fn slot(value: &Value<'_>, network: &Network) -> Option<u8> {
    if network.multiplexed_cycles == 0 {
        let help = "set the number of cycles in [network]: multiplexed-cycles = 4";
        value.fault("the network has no multiplexed cycle", help);
        return None;
    }
    value.number(1..=network.multiplexed_cycles)
}

fn name(value: &Value<'_>) -> Option<String> {
    let name = value.text()?;
    let fits = (1..=32).contains(&name.len()) && name.bytes().all(|octet| octet.is_ascii_graphic());
    if !fits {
        value.fault(
            format!("invalid host name {name:?}"),
            "use 1 to 32 letters, digits and hyphens",
        );
    }
    fits.then(|| name.to_owned())
}

/// The identity of a node, which the managing node checks.
fn identity(value: Option<Value<'_>>, name: &str, device: Option<&Description>) -> Identity {
    let mut identity = Identity {
        device_type: DEVICE_TYPE,
        vendor_id: 0,
        product_code: 0,
        revision_number: 0,
        serial_number: 0,
        features: CONTROLLED_NODE_FEATURES,
        device_name: name.as_bytes().to_vec(),
        host_name: name.as_bytes().to_vec(),
    };
    if let Some(device) = device {
        xdd::identify(device, &mut identity);
    }
    let Some(mut table) = value.and_then(|value| value.table()) else { return identity };
    for (key, to) in [
        ("device-type", &mut identity.device_type),
        ("vendor-id", &mut identity.vendor_id),
        ("product-code", &mut identity.product_code),
        ("revision-number", &mut identity.revision_number),
        ("serial-number", &mut identity.serial_number),
    ] {
        let number = table.take(key).and_then(|value| value.number(0..=u32::MAX));
        *to = number.unwrap_or(*to);
    }
    table.finish();
    identity
}

/// The signals of one direction, their simulation patterns, and outputs that other nodes send.
fn signals<'a>(
    table: &mut Table<'a>,
    key: &'static str,
    index: u16,
    described: Option<&Dictionary>,
) -> (Vec<Signal>, Vec<Pattern>, Vec<Reference<'a>>) {
    let items = table.items(key);
    if let Some(first) = items.get(MAX_SIGNALS) {
        first.fault(
            format!("too many signals: {}", items.len()),
            format!(
                "use at most {MAX_SIGNALS}, the entries of a mapping; pack bits into one signal"
            ),
        );
    }
    let (mut own, mut patterns, mut received) = (Vec::new(), Vec::new(), Vec::new());
    for (place, value) in items.iter().take(MAX_SIGNALS).enumerate() {
        // Sub-indices starting at 1.
        match signal(value, key, place, id(index, place as u8 + 1), described) {
            Some(SignalKind::Own(signal, pattern)) => {
                own.push(signal);
                patterns.push(pattern);
            }
            Some(SignalKind::Received(reference)) => received.push(reference),
            None => {}
        }
    }
    (own, patterns, received)
}

/// A signal between a node and its managing node, or one from another node.
enum SignalKind<'a> {
    Own(Signal, Pattern),
    Received(Reference<'a>),
}

fn signal<'a>(
    value: &Value<'a>,
    key: &str,
    place: usize,
    usual: ObjectId,
    described: Option<&Dictionary>,
) -> Option<SignalKind<'a>> {
    let mut table = value.table()?;
    let name = table.take("name").and_then(|value| value.text());
    let name = name.map_or_else(|| format!("{key} {}", place + 1), str::to_owned);
    let object = match table.take("object") {
        Some(value) => object(&value),
        None => Some(usual),
    };
    // A description defines the type of its objects.
    let known = object.and_then(|object| described?.object(object).ok());
    let from = if key == "output" { table.take("from") } else { None };
    let data_type = match (table.take("type"), known) {
        (None, Some(known)) => Some(known.data_type),
        (Some(value), _) => Some(value.choice(&TYPES)?),
        (None, None) if from.is_some() => None,
        (None, None) => table.require("type", "\"u16\"").and_then(|value| value.choice(&TYPES)),
    };
    if let Some(from) = from {
        // The other node generates it: `simulate` is an unknown key here.
        table.finish();
        return Reference::read(from, name, object?, data_type).map(SignalKind::Received);
    }
    let pattern = table.take("simulate").and_then(|value| value.choice(&Pattern::ALL));
    table.finish();
    let signal = Signal { name, object: object?, data_type: data_type? };
    Some(SignalKind::Own(signal, pattern.unwrap_or_default()))
}

/// An object written to the node, and its value as on the wire.
fn parameter(value: &Value<'_>) -> Option<(ObjectId, Vec<u8>)> {
    let mut table = value.table()?;
    let object = table.require("object", "\"1C0B/03\"").and_then(|value| object(&value));
    let octets = table.require("octets", "\"28 00 00 00\"").and_then(|value| value.octets());
    table.finish();
    Some((object?, octets?))
}
