//! Conversion of streams to table entries: pure, so that it is tested without a kernel.

use std::cmp::{Ordering, Reverse};
use std::hash::{DefaultHasher, Hash, Hasher};

use onbeat_bpf::PlainData;
use onbeat_frer::spec::{
    Algorithm, Egress, Identification, IpMatch, LookupKey, MaskAndMatch, Recovery, Rewrite,
    SequenceTag, Stream, TagMatch, VlanAction, VlanMatch,
};

use crate::abi::constants as c;
use crate::abi::{
    frer_egress, frer_ip_key, frer_l2_key, frer_mask, frer_mask_key, frer_recovery_config,
    frer_rewrite,
};
use onbeat_wire::MacAddress;

/// A key of one of the three stream tables.
#[derive(Debug, Clone, Copy)]
pub enum Key {
    /// Of `l2_index`.
    L2(frer_l2_key),
    /// Of `ip_streams`.
    Ip(frer_ip_key),
    /// Of `mask_streams`.
    Mask(frer_mask_key),
}

/// The kind of a key: frames are looked up once per kind in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// A shape of layer 2.
    L2(u16),
    /// A shape of IP.
    Ip(u16),
    /// Masks, by their id.
    Mask(u64),
}

impl Key {
    /// Returns the kind of the key.
    pub fn kind(&self) -> KeyKind {
        match self {
            Key::L2(key) => KeyKind::L2(key.shape_port & 0xff),
            Key::Ip(key) => KeyKind::Ip(key.shape),
            Key::Mask(key) => KeyKind::Mask(key.mask),
        }
    }

    /// Returns the slot of the key's port.
    pub fn port(&self) -> u8 {
        match self {
            Key::L2(key) => (key.shape_port >> 8) as u8,
            Key::Ip(key) => key.port,
            Key::Mask(key) => key.port as u8,
        }
    }

    /// Returns the VLAN id of the key; 0: none.
    pub fn vid(&self) -> u16 {
        match self {
            Key::L2(key) => (key.address >> 48) as u16 & !(c::KEY as u16),
            Key::Ip(key) => key.vid,
            Key::Mask(_) => 0,
        }
    }

    /// Returns the octets of the key; their number is unique to the kind of key.
    fn octets(&self) -> &[u8] {
        match self {
            Key::L2(key) => key.octets(),
            Key::Ip(key) => key.octets(),
            Key::Mask(key) => key.octets(),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.octets() == other.octets()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.octets());
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.octets().cmp(other.octets())
    }
}

/// The function whose state most frames of a member access, by its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Neither function.
    None,
    /// Sequence generation.
    Generator(u32),
    /// Sequence recovery.
    Recovery(u32),
}

/// The result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchedMember {
    /// Slot of the member.
    pub member: u32,
    /// The function of the member.
    pub state: State,
}

impl MatchedMember {
    /// Returns the kernel's form for a frame found under `key`.
    pub fn word(self, key: &Key) -> u64 {
        let (kind, slot) = match self.state {
            State::None => (c::STATE_NONE, 0),
            State::Generator(slot) => (c::STATE_GENERATOR, slot),
            State::Recovery(slot) => (c::STATE_RECOVERY, slot),
        };
        assert!(self.member <= c::MEMBER_MASK && slot <= c::STATE_MASK, "{self:?}");
        let above = match key {
            Key::L2(key) => found_key(key),
            Key::Ip(_) | Key::Mask(_) => u64::from(c::FOUND),
        };
        above << c::FOUND_KEY
            | u64::from(self.member) << c::FOUND_MEMBER
            | u64::from(kind) << c::FOUND_KIND
            | u64::from(slot)
    }

    /// Converts from the kernel's form; `None`: no stream.
    pub fn read(word: u64) -> Option<Self> {
        if word == 0 {
            return None;
        }
        let slot = word as u32 & c::STATE_MASK;
        let state = match word as u32 >> c::FOUND_KIND & 3 {
            c::STATE_GENERATOR => State::Generator(slot),
            c::STATE_RECOVERY => State::Recovery(slot),
            _ => State::None,
        };
        Some(Self { member: (word >> c::FOUND_MEMBER) as u32 & c::MEMBER_MASK, state })
    }
}

/// Returns the upper part of the word of frames with this key.
pub fn found_key(key: &frer_l2_key) -> u64 {
    u64::from(c::FOUND) | u64::from(key.shape_port)
}

/// Returns class and VID of a VLAN requirement. `TagMatch::All` with a VID also matches frames without a tag,
/// under a separate key.
fn vlan_keys(vlan: &VlanMatch) -> Vec<(u32, u16)> {
    match (vlan.tagged, vlan.vlan) {
        (TagMatch::Tagged, 0) => vec![(c::VLAN_ANY, 0)],
        (TagMatch::Tagged, vid) => vec![(c::VLAN_EXACT, vid)],
        (TagMatch::Priority, _) => vec![(c::VLAN_PRIORITY, 0)],
        (TagMatch::All, 0) => vec![(c::VLAN_ALL, 0)],
        (TagMatch::All, vid) => vec![(c::VLAN_ALL_VID, vid), (c::VLAN_ALL_VID, 0)],
    }
}

/// Returns the keys of frames that match `identification` on `port`; the key with the required VLAN id is
/// first.
pub fn keys(identification: &Identification, port: u8) -> Vec<Key> {
    let l2 = |mac: [u8; 6], vlan: &VlanMatch, source: u32| {
        vlan_keys(vlan)
            .into_iter()
            .map(|(class, vid)| Key::L2(l2_key(class | source, vid, mac, port)))
            .collect()
    };
    match identification.key() {
        LookupKey::Destination { address, vlan } => l2(address.0, &vlan, 0),
        LookupKey::Source { address, vlan } => l2(address.0, &vlan, c::SHAPE_SOURCE),
        LookupKey::Ip(ip) => vlan_keys(&ip.vlan)
            .into_iter()
            .map(|(class, vid)| Key::Ip(ip_key(ip, class, vid, port)))
            .collect(),
        LookupKey::Mask(m) => {
            let mask = masks(m).id;
            let octets = masked_octets(&m.destination_match, &m.source_match, &m.msdu_match);
            vec![Key::Mask(frer_mask_key { mask, octets, port: port.into(), zero: 0 })]
        }
    }
}

/// Longest mask of the MSDU, in octets.
pub const LONGEST_MSDU_MASK: u16 = c::MASK_MSDU as u16;

/// Checks that the kernel can look up the identification.
///
/// # Errors
/// The unsupported parameter, and the remedy.
pub fn check(identification: &Identification) -> Result<(), String> {
    let LookupKey::Mask(mask) = identification.key() else { return Ok(()) };
    match (mask.msdu_mask.len(), LONGEST_MSDU_MASK) {
        (octets, most) if octets > usize::from(most) => {
            Err(format!("msdu-mask: {octets} octets; XDP reads at most {most}: shorten the mask"))
        }
        _ => Ok(()),
    }
}

/// Returns the masks of an identification; `None`: looked up without masks.
pub fn mask(identification: &Identification) -> Option<frer_mask> {
    match identification.key() {
        LookupKey::Mask(mask) => Some(masks(mask)),
        _ => None,
    }
}

/// Returns the kernel's form of masks whose MSDU mask fits into it.
fn masks(mask: &MaskAndMatch) -> frer_mask {
    let octets = masked_octets(&mask.destination_mask, &mask.source_mask, &mask.msdu_mask);
    let msdu_length = mask.msdu_mask.len() as u32;
    let mut hasher = DefaultHasher::new();
    hasher.write(&octets);
    hasher.write_u32(msdu_length);
    frer_mask { id: hasher.finish().max(1), octets, msdu_length, zero: 0 }
}

fn masked_octets(
    destination: &MacAddress,
    source: &MacAddress,
    msdu: &[u8],
) -> [u8; c::MASK_LEN as usize] {
    let mut octets = [0; c::MASK_LEN as usize];
    let all = destination.0.iter().chain(&source.0).chain(msdu);
    octets.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
    octets
}

/// Returns the precedence of masks: lower ones are looked up first.
pub fn mask_rank(mask: &frer_mask) -> Reverse<(u32, Vec<u8>)> {
    let bits = mask.octets.iter().map(|octet| octet.count_ones()).sum();
    let length = 12 + mask.msdu_length as usize;
    Reverse((bits, mask.octets[..length].to_vec()))
}

fn l2_key(shape: u32, vid: u16, mac: [u8; 6], port: u8) -> frer_l2_key {
    let [o0, o1, o2, o3, o4, o5] = mac;
    let above = u64::from(vid) | u64::from(c::KEY);
    frer_l2_key {
        address: u64::from_le_bytes([o0, o1, o2, o3, o4, o5, 0, 0]) | above << 48,
        shape_port: shape as u16 | u16::from(port) << 8,
        zero: [0; 3],
    }
}

fn ip_octets(address: core::net::IpAddr) -> [u8; 16] {
    match address {
        core::net::IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        core::net::IpAddr::V6(v6) => v6.octets(),
    }
}

fn ip_key(ip: &IpMatch, class: u32, vid: u16, port: u8) -> frer_ip_key {
    let mut shape = c::SHAPE_IP | class;
    let mut key = frer_ip_key {
        vid,
        mac: ip.destination.0,
        port,
        version: if ip.ip_destination.is_ipv4() { 4 } else { 6 },
        destination: ip_octets(ip.ip_destination),
        ..Default::default()
    };
    if let Some(source) = ip.ip_source {
        shape |= c::SHAPE_IP_SRC;
        key.source = ip_octets(source);
    }
    if let Some(dscp) = ip.dscp {
        shape |= c::SHAPE_DSCP;
        key.dscp = dscp;
    }
    let (protocol, source, destination) = ip.next_protocol.parts();
    if let Some(protocol) = protocol {
        shape |= c::SHAPE_PROTO;
        key.protocol = protocol;
    }
    if let Some(port) = source {
        shape |= c::SHAPE_SPORT;
        key.sport = port.to_be();
    }
    if let Some(port) = destination {
        shape |= c::SHAPE_DPORT;
        key.dport = port.to_be();
    }
    key.shape = shape as u16;
    key
}

/// Returns the precedence of a shape: lower ones are looked up first. The order is that of
/// `onbeat_frer::identify::Table`.
pub fn rank(shape: u16) -> (bool, u32, Reverse<(usize, [bool; 5])>) {
    let shape = u32::from(shape);
    let fields = [c::SHAPE_IP_SRC, c::SHAPE_DSCP, c::SHAPE_PROTO, c::SHAPE_SPORT, c::SHAPE_DPORT];
    let given = fields.map(|field| shape & field != 0);
    let count = given.into_iter().filter(|given| *given).count();
    (shape & c::SHAPE_SOURCE != 0, shape & c::SHAPE_VLAN, Reverse((count, given)))
}

/// Returns the kernel's form of a rewrite.
pub fn rewrite(rewrite: &Rewrite) -> frer_rewrite {
    let mut out = frer_rewrite::default();
    let mut flags = 0;
    if let Some(destination) = rewrite.destination {
        flags |= c::REWRITE_DESTINATION;
        out.destination = destination.0;
    }
    match rewrite.vlan {
        VlanAction::Keep => {}
        VlanAction::Set(vid) => {
            flags |= c::REWRITE_VLAN;
            out.vid = vid;
        }
        VlanAction::Remove => flags |= c::REWRITE_NO_VLAN,
    }
    if let Some(priority) = rewrite.priority {
        flags |= c::REWRITE_PRIORITY;
        out.priority = priority;
    }
    out.flags = flags as u8;
    out
}

fn tag(tag: SequenceTag) -> u8 {
    (match tag {
        SequenceTag::Keep => c::TAG_KEEP,
        SequenceTag::RTag => c::TAG_PUSH,
        SequenceTag::Remove => c::TAG_POP,
    }) as u8
}

/// The replication of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication {
    /// Slots of the egress ports, lowest first.
    pub ports: Vec<u8>,
    /// Handling of the sequence tag before replication.
    pub tag: u8,
    /// Edits of addresses and VLAN tag before replication.
    pub rewrite: Rewrite,
    /// Edits of the replica of each port, in the order of `ports`; empty: none.
    pub egresses: Vec<Egress>,
}

impl Replication {
    /// Compiles the replication of a stream. `slot` returns the slot of a port.
    pub fn of(stream: &Stream, slot: impl Fn(&Egress) -> u8) -> Self {
        let mut egress: Vec<_> = stream.egress.iter().map(|e| (slot(e), e.clone())).collect();
        egress.sort_by_key(|(port, _)| *port);
        let ports = egress.iter().map(|(port, _)| *port).collect();
        let egresses: Vec<_> = egress.into_iter().map(|(_, egress)| egress).collect();
        let first = &egresses[0];
        if egresses.iter().all(|e| (e.tag, e.rewrite) == (first.tag, first.rewrite)) {
            return Self { ports, tag: tag(first.tag), rewrite: first.rewrite, egresses: vec![] };
        }
        // A drawn number is inserted once, before replication, if any replica carries it; ports that send
        // none remove it again.
        let push = egresses.iter().any(|e| e.tag == SequenceTag::RTag);
        let action = if push { c::TAG_PUSH } else { c::TAG_KEEP } as u8;
        Self { ports, tag: action, rewrite: Rewrite::default(), egresses }
    }

    /// Returns the kernel's form of the edits at port number `index` of `ports`.
    pub fn egress(&self, index: usize) -> frer_egress {
        let egress = &self.egresses[index];
        frer_egress {
            rewrite: rewrite(&egress.rewrite),
            tag: tag(egress.tag),
            ..Default::default()
        }
    }
}

/// Returns the number of words of the ring for a history (abi/frer.h).
fn ring_words(history_length: u16) -> u16 {
    let numbers = 2 * u32::from(history_length) + c::SEEN_BITS;
    numbers.div_ceil(c::SEEN_BITS).next_power_of_two().max(c::INLINE_WORDS) as u16
}

/// Returns the kernel's form of a recovery function's parameters. Its clock advances in steps of `tick_ns`,
/// so a time stamp may be that old: with this addition to the timeout it never expires early.
pub fn recovery(recovery: &Recovery, individual: bool, tick_ns: u64) -> frer_recovery_config {
    let mut flags = 0;
    let history_length = match recovery.algorithm {
        Algorithm::Vector { history_length } => history_length,
        Algorithm::Match => {
            flags |= c::RECOVERY_MATCH;
            2
        }
    };
    if recovery.take_no_sequence {
        flags |= c::RECOVERY_TAKE_NOSEQ;
    }
    if individual {
        flags |= c::RECOVERY_INDIVIDUAL;
    }
    let timeout_ns = match recovery.reset_timeout_ms {
        0 => 0,
        ms => u64::from(ms) * 1_000_000 + tick_ns,
    };
    frer_recovery_config {
        timeout_ns,
        flags: flags as u16,
        history_length,
        ring_mask: ring_words(history_length) - 1,
        former_mask: ring_words(history_length) - 1,
        ..Default::default()
    }
}
