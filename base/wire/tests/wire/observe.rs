//! Results of the codecs by the names of `vectors/frames.toml`.

use onbeat_wire::edit::{Edit, EditError, MAX_GROWTH, RTagAction, VlanAction, edit};
use onbeat_wire::ip::IpError;
use onbeat_wire::ipv6::ExtensionError;
use onbeat_wire::prp::TrailerError;
use onbeat_wire::{
    EmitError, EtherType, Frame, Ip, MacAddress, SequenceTag, TagError, TruncationError, VlanTag,
    arp, ethernet, hsr, ipv4, ipv6, prp, rtag, udp, vlan,
};
use toml::{Table, Value};

/// The name of an error.
pub(crate) trait ErrorName {
    fn name(&self) -> &'static str;
}

impl ErrorName for TruncationError {
    fn name(&self) -> &'static str {
        "truncated"
    }
}

impl ErrorName for TagError {
    fn name(&self) -> &'static str {
        match self {
            TagError::Truncated(error) => error.name(),
            TagError::OtherEtherType { .. } => "other_ethertype",
        }
    }
}

impl ErrorName for TrailerError {
    fn name(&self) -> &'static str {
        match self {
            TrailerError::Truncated(error) => error.name(),
            TrailerError::Suffix(_) => "suffix",
            TrailerError::LanId(_) => "lan_id",
            TrailerError::LsduSize { .. } => "lsdu_size",
        }
    }
}

impl ErrorName for arp::PacketError {
    fn name(&self) -> &'static str {
        match self {
            arp::PacketError::Truncated(error) => error.name(),
            arp::PacketError::Hardware(_) => "hardware",
            arp::PacketError::Protocol(_) => "protocol",
            arp::PacketError::Lengths(_) => "lengths",
        }
    }
}

impl ErrorName for ipv4::PacketError {
    fn name(&self) -> &'static str {
        match self {
            ipv4::PacketError::Truncated(error) => error.name(),
            ipv4::PacketError::Version(_) => "version",
            ipv4::PacketError::HeaderLength(_) => "header_length",
            ipv4::PacketError::TotalLength { .. } => "total_length",
        }
    }
}

impl ErrorName for ipv6::PacketError {
    fn name(&self) -> &'static str {
        match self {
            ipv6::PacketError::Truncated(error) => error.name(),
            ipv6::PacketError::Version(_) => "version",
        }
    }
}

impl ErrorName for udp::DatagramError {
    fn name(&self) -> &'static str {
        match self {
            udp::DatagramError::Truncated(error) => error.name(),
            udp::DatagramError::Length(_) => "length",
        }
    }
}

impl ErrorName for IpError {
    fn name(&self) -> &'static str {
        match self {
            IpError::V4(error) => error.name(),
            IpError::V6(error) => error.name(),
            IpError::Extension(ExtensionError::Truncated(error)) | IpError::Ports(error) => {
                error.name()
            }
            IpError::Extension(ExtensionError::TooMany) => "too_many_extensions",
        }
    }
}

impl ErrorName for EditError {
    fn name(&self) -> &'static str {
        match self {
            EditError::Emit(EmitError::NoRoom { .. }) => "no_room",
            EditError::Emit(EmitError::OutOfRange { .. }) => "out_of_range",
            EditError::TooManyVlans => "too_many_vlans",
            EditError::AlreadyTagged(_) => "already_tagged",
        }
    }
}

fn named<T>(result: Result<T, impl ErrorName>) -> Result<T, &'static str> {
    result.map_err(|error| error.name())
}

fn table<const N: usize>(fields: [(&str, Value); N]) -> Table {
    fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn int(value: impl Into<i64>) -> Value {
    Value::Integer(value.into())
}

fn text(value: impl ToString) -> Value {
    Value::String(value.to_string())
}

/// Returns the octets that `emit` writes into a buffer of 0xa5.
fn emitted(emit: impl Fn(&mut [u8]) -> Result<usize, EmitError>) -> Vec<u8> {
    let mut buffer = [0xa5; 64];
    let len = emit(&mut buffer).expect("fields that were parsed");
    assert!(buffer[len..].iter().all(|octet| *octet == 0xa5));
    buffer[..len].to_vec()
}

/// Returns the fields of `octets`, and the octets that emitting them writes.
pub(crate) fn parsed(codec: &str, octets: &[u8]) -> Result<(Table, Option<Vec<u8>>), &'static str> {
    Ok(match codec {
        "ethernet" => {
            let repr = ethernet::Repr::parse(&named(ethernet::Header::new_checked(octets))?);
            let fields = table([
                ("destination", text(repr.destination)),
                ("source", text(repr.source)),
                ("ethertype", int(repr.ethertype.0)),
            ]);
            (fields, Some(emitted(|buffer| repr.emit(buffer))))
        }
        "vlan" => {
            let tag = VlanTag::parse(&named(vlan::View::new_checked(octets))?);
            (vlan_tag(tag), Some(emitted(|buffer| tag.emit(buffer))))
        }
        "rtag" => {
            let repr = rtag::Repr::parse(&named(rtag::View::new_checked(octets))?);
            let fields = table([("sequence", int(repr.sequence))]);
            (fields, Some(emitted(|buffer| repr.emit(buffer))))
        }
        "hsr" => {
            let repr = hsr::Repr::parse(&named(hsr::View::new_checked(octets))?);
            let fields = table([
                ("path", int(repr.path)),
                ("lsdu_size", int(repr.lsdu_size)),
                ("sequence", int(repr.sequence)),
            ]);
            (fields, Some(emitted(|buffer| repr.emit(buffer))))
        }
        "prp" => {
            let repr = prp::Repr::parse(&named(prp::View::new_checked(octets))?);
            (trailer(repr), Some(emitted(|buffer| repr.emit(buffer))))
        }
        "arp" => {
            let repr = arp::Repr::parse(&named(arp::View::new_checked(octets))?);
            let fields = table([
                ("operation", int(repr.operation.0)),
                ("sender_mac", text(repr.sender_mac)),
                ("sender_ip", text(repr.sender_ip)),
                ("target_mac", text(repr.target_mac)),
                ("target_ip", text(repr.target_ip)),
            ]);
            (fields, Some(emitted(|buffer| repr.emit(buffer))))
        }
        "ipv4" => {
            let repr = ipv4::Repr::parse(&named(ipv4::View::new_checked(octets))?);
            let fields = table([
                ("dscp", int(repr.dscp)),
                ("ecn", int(repr.ecn)),
                ("identification", int(repr.identification)),
                ("dont_fragment", Value::Boolean(repr.dont_fragment)),
                ("more_fragments", Value::Boolean(repr.more_fragments)),
                ("fragment_offset", int(repr.fragment_offset)),
                ("ttl", int(repr.ttl)),
                ("protocol", int(repr.protocol.0)),
                ("source", text(repr.source)),
                ("destination", text(repr.destination)),
                ("payload_len", int(repr.payload_len)),
            ]);
            (fields, Some(emitted(|buffer| repr.emit(buffer))))
        }
        "ipv6" => {
            let repr = ipv6::Repr::parse(&named(ipv6::View::new_checked(octets))?);
            let fields = table([
                ("dscp", int(repr.dscp)),
                ("ecn", int(repr.ecn)),
                ("flow_label", int(repr.flow_label)),
                ("next_header", int(repr.next_header.0)),
                ("hop_limit", int(repr.hop_limit)),
                ("source", text(repr.source)),
                ("destination", text(repr.destination)),
                ("payload_len", int(repr.payload_len)),
            ]);
            (fields, Some(emitted(|buffer| repr.emit(buffer))))
        }
        "udp" => {
            let repr = udp::Repr::parse(&named(udp::View::new_checked(octets))?);
            let fields = table([
                ("source", int(repr.ports.source)),
                ("destination", int(repr.ports.destination)),
                ("payload_len", int(repr.payload_len)),
            ]);
            (fields, Some(emitted(|buffer| repr.emit(buffer))))
        }
        "frame" => (frame(&named(Frame::parse(octets))?), None),
        other => panic!("no codec {other:?}"),
    })
}

fn vlan_tag(tag: VlanTag) -> Table {
    table([
        ("tpid", int(tag.tpid.0)),
        ("pcp", int(tag.pcp)),
        ("dei", Value::Boolean(tag.dei)),
        ("vid", int(tag.vid)),
    ])
}

fn trailer(repr: prp::Repr) -> Table {
    table([
        ("sequence", int(repr.sequence)),
        ("lan", text(format!("{:?}", repr.lan))),
        ("lsdu_size", int(repr.lsdu_size)),
    ])
}

fn sequence_tag(tag: SequenceTag) -> Table {
    let number = ("number", int(tag.sequence()));
    match tag {
        SequenceTag::RTag(_) => table([("tag", text("r-tag")), number]),
        SequenceTag::Hsr(tag) => table([
            ("tag", text("hsr")),
            number,
            ("path", int(tag.path)),
            ("lsdu_size", int(tag.lsdu_size)),
        ]),
    }
}

fn ip(ip: Ip) -> Table {
    let mut fields = table([
        ("source", text(ip.source)),
        ("destination", text(ip.destination)),
        ("dscp", int(ip.dscp)),
        ("protocol", int(ip.protocol.0)),
    ]);
    if let Some(ports) = ip.ports {
        fields.insert("source_port".into(), int(ports.source));
        fields.insert("destination_port".into(), int(ports.destination));
    }
    fields
}

fn frame(frame: &Frame<'_>) -> Table {
    let mut fields = table([
        ("destination", text(frame.destination())),
        ("source", text(frame.source())),
        ("ethertype", int(frame.ethertype().0)),
        ("msdu_offset", int(frame.msdu_offset() as i64)),
        ("payload_offset", int(frame.payload_offset() as i64)),
    ]);
    let vlans: Vec<Value> = frame.vlans().map(|tag| Value::Table(vlan_tag(tag))).collect();
    if !vlans.is_empty() {
        fields.insert("vlans".into(), Value::Array(vlans));
    }
    if let Some(tag) = frame.sequence_tag() {
        fields.insert("sequence".into(), Value::Table(sequence_tag(tag)));
    }
    match frame.ip() {
        Ok(Some(found)) => {
            fields.insert("ip".into(), Value::Table(ip(found)));
        }
        Ok(None) => {}
        Err(error) => {
            fields.insert("ip_error".into(), text(error.name()));
        }
    }
    if let Ok(repr) = frame.prp() {
        fields.insert("prp".into(), Value::Table(trailer(repr)));
    }
    fields
}

/// Returns a frame with the edits in `wanted`.
pub(crate) fn edited(octets: &[u8], wanted: &Table) -> Result<Vec<u8>, &'static str> {
    let number = |value: &Value| value.as_integer().expect("a number");
    let short = |value: &Value| u16::try_from(number(value)).expect("16 bits");
    let octet = |value: &Value| u8::try_from(number(value)).expect("8 bits");
    let mut what = Edit::default();
    for (key, value) in wanted {
        match key.as_str() {
            "destination" => {
                let address: MacAddress = value.as_str().expect("text").parse().expect("a MAC");
                what.destination = Some(address);
            }
            "priority" => what.priority = Some(octet(value)),
            "set_vlan" => what.vlan = VlanAction::Set(short(value)),
            "push_vlan" => {
                what.vlan = VlanAction::Push(VlanTag {
                    tpid: EtherType(short(&value["tpid"])),
                    pcp: octet(&value["pcp"]),
                    dei: value["dei"].as_bool().expect("true or false"),
                    vid: short(&value["vid"]),
                });
            }
            "remove_vlan" => what.vlan = VlanAction::Remove,
            "push_rtag" => what.rtag = RTagAction::Push(short(value)),
            "remove_rtag" => what.rtag = RTagAction::Remove,
            other => panic!("no edit {other:?}"),
        }
    }
    let frame = Frame::parse(octets).expect("a whole frame");
    let mut out = vec![0xa5; octets.len() + MAX_GROWTH];
    let len = named(edit(&frame, &what, &mut out))?;
    assert!(out[len..].iter().all(|octet| *octet == 0xa5));
    out.truncate(len);
    Ok(out)
}
