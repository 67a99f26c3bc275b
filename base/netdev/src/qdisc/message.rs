//! `struct tcmsg` and its attributes (linux/pkt_sched.h).

use netlink_packet_core::{DefaultNla, Emitable};

use super::{Discipline, Etf, Qdisc, QdiscHandle, QueueMap, Taprio};
use crate::netlink::Failure;

pub(super) const RTM_NEWQDISC: u16 = 36;
pub(super) const RTM_DELQDISC: u16 = 37;
pub(super) const RTM_GETQDISC: u16 = 38;

/// `struct tcmsg`: family and padding, index, handle, parent, information.
const HEADER: usize = 20;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_ETF_PARMS: u16 = 1;
const ETF_DEADLINE: u32 = 1;
const ETF_OFFLOAD: u32 = 2;
const ETF_SKIP_SOCKET_CHECK: u32 = 4;
/// `struct tc_mqprio_qopt`: number of classes, class of each priority, offload, then counts and
/// first queues of up to 16 classes.
const MQPRIO: usize = 1 + 16 + 1 + 2 * 16 * 2;
const CLASSES: usize = 16;
const TAPRIO_PRIOMAP: u16 = 1;
const TAPRIO_ENTRIES: u16 = 2;
const TAPRIO_BASE_TIME: u16 = 3;
const TAPRIO_CLOCK: u16 = 5;
/// `TCA_TAPRIO_ATTR_ADMIN_SCHED`.
const TAPRIO_NEXT: u16 = 7;
const SCHED_ENTRY: u16 = 1;
const ENTRY_COMMAND: u16 = 2;
const ENTRY_GATES: u16 = 3;
const ENTRY_INTERVAL: u16 = 4;
const NESTED: u16 = libc::NLA_F_NESTED as u16;

impl QdiscHandle {
    fn number(self) -> u32 {
        u32::from(self.major) << 16 | u32::from(self.minor)
    }

    fn of(number: u32) -> Self {
        Self { major: (number >> 16) as u16, minor: number as u16 }
    }
}

fn header(index: u32, handle: QdiscHandle, parent: QdiscHandle) -> Vec<u8> {
    [0, index, handle.number(), parent.number(), 0].map(u32::to_ne_bytes).concat()
}

/// Builds a query for the disciplines of a device.
pub(super) fn query(index: u32) -> Vec<u8> {
    header(index, QdiscHandle::NONE, QdiscHandle::NONE)
}

/// Builds a reference to the root of a device.
pub(super) fn root(index: u32) -> Vec<u8> {
    header(index, QdiscHandle::NONE, QdiscHandle::ROOT)
}

/// Serializes a discipline.
pub(super) fn emit(index: u32, qdisc: &Qdisc) -> Vec<u8> {
    let kind = [qdisc.discipline.kind().as_bytes(), b"\0"].concat();
    let mut message = header(index, qdisc.handle, qdisc.parent);
    message.extend(octets(&[DefaultNla::new(TCA_KIND, kind)]));
    let options = match &qdisc.discipline {
        Discipline::Other(_) => return message,
        Discipline::Etf(etf) => octets(&[DefaultNla::new(TCA_ETF_PARMS, etf_octets(etf))]),
        Discipline::Mqprio(map) => map_octets(map),
        Discipline::Taprio(taprio) => taprio_octets(taprio),
    };
    message.extend(octets(&[DefaultNla::new(TCA_OPTIONS, options)]));
    message
}

fn octets(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut octets = vec![0; attributes.buffer_len()];
    attributes.emit(&mut octets);
    octets
}

fn etf_octets(etf: &Etf) -> Vec<u8> {
    let flag = |on: bool, flag: u32| if on { flag } else { 0 };
    let flags = flag(etf.deadline, ETF_DEADLINE)
        | flag(etf.offload, ETF_OFFLOAD)
        | flag(etf.skip_socket_check, ETF_SKIP_SOCKET_CHECK);
    [etf.delta_ns.to_ne_bytes(), libc::CLOCK_TAI.to_ne_bytes(), flags.to_ne_bytes()].concat()
}

fn map_octets(map: &QueueMap) -> Vec<u8> {
    let mut octets = vec![map.queues.len() as u8];
    octets.extend(map.class_of);
    // No offload.
    octets.push(0);
    let padded = || map.queues.iter().copied().chain(std::iter::repeat((0, 0))).take(CLASSES);
    octets.extend(padded().flat_map(|(_, count)| count.to_ne_bytes()));
    octets.extend(padded().flat_map(|(first, _)| first.to_ne_bytes()));
    octets
}

fn taprio_octets(taprio: &Taprio) -> Vec<u8> {
    let entries: Vec<DefaultNla> = taprio
        .entries
        .iter()
        .map(|(gates, interval_ns)| {
            let entry = octets(&[
                // Set gates.
                DefaultNla::new(ENTRY_COMMAND, vec![0]),
                DefaultNla::new(ENTRY_GATES, gates.to_ne_bytes().into()),
                DefaultNla::new(ENTRY_INTERVAL, interval_ns.to_ne_bytes().into()),
            ]);
            DefaultNla::new(SCHED_ENTRY | NESTED, entry)
        })
        .collect();
    octets(&[
        DefaultNla::new(TAPRIO_PRIOMAP, map_octets(&taprio.queues)),
        DefaultNla::new(TAPRIO_ENTRIES | NESTED, octets(&entries)),
        DefaultNla::new(TAPRIO_BASE_TIME, taprio.base_time_ns.to_ne_bytes().into()),
        DefaultNla::new(TAPRIO_CLOCK, libc::CLOCK_TAI.to_ne_bytes().into()),
    ])
}

/// Parses the kernel's description of a discipline. `None`: of another device.
pub(super) fn parse(octets: &[u8], of: u32) -> Result<Option<Qdisc>, Failure> {
    let short = || Failure::Malformed("a short qdisc".into());
    let word = |at| number(octets, at).ok_or_else(short);
    if word(4)? != of {
        return Ok(None);
    }
    let (mut kind, mut options) = (String::new(), &[][..]);
    for (attribute, value) in attributes(&octets[HEADER.min(octets.len())..]) {
        match attribute {
            TCA_KIND => {
                kind = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
            }
            TCA_OPTIONS => options = value,
            _ => {}
        }
    }
    let discipline = match kind.as_str() {
        "etf" => parse_etf(options).map(Discipline::Etf),
        "mqprio" => parse_map(options).map(Discipline::Mqprio),
        "taprio" => parse_taprio(options).map(Discipline::Taprio),
        _ => None,
    };
    Ok(Some(Qdisc {
        handle: QdiscHandle::of(word(8)?),
        parent: QdiscHandle::of(word(12)?),
        discipline: discipline.unwrap_or(Discipline::Other(kind)),
    }))
}

/// Returns the complete attributes.
fn attributes(octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = octets;
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?) & !NESTED;
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn number(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*octets.get(at..)?.first_chunk()?))
}

fn parse_etf(options: &[u8]) -> Option<Etf> {
    let (_, parameters) = attributes(options).find(|(kind, _)| *kind == TCA_ETF_PARMS)?;
    let flags = number(parameters, 8)?;
    Some(Etf {
        delta_ns: number(parameters, 0)? as i32,
        deadline: flags & ETF_DEADLINE != 0,
        offload: flags & ETF_OFFLOAD != 0,
        skip_socket_check: flags & ETF_SKIP_SOCKET_CHECK != 0,
    })
}

fn parse_map(options: &[u8]) -> Option<QueueMap> {
    let map: &[u8; MQPRIO] = options.first_chunk()?;
    let half = |i: usize| u16::from_ne_bytes([map[18 + 2 * i], map[18 + 2 * i + 1]]);
    let classes = usize::from(map[0]).min(CLASSES);
    Some(QueueMap {
        class_of: *map[1..].first_chunk()?,
        queues: (0..classes).map(|i| (half(CLASSES + i), half(i))).collect(),
    })
}

fn parse_taprio(options: &[u8]) -> Option<Taprio> {
    let mut taprio = Taprio::default();
    // A schedule that has not started yet has precedence over the running one.
    let next = attributes(options).find(|(kind, _)| *kind == TAPRIO_NEXT);
    let next = attributes(next.map_or(&[], |(_, schedule)| schedule));
    for (kind, value) in attributes(options).chain(next) {
        match kind {
            TAPRIO_PRIOMAP => taprio.queues = parse_map(value)?,
            TAPRIO_BASE_TIME => taprio.base_time_ns = i64::from_ne_bytes(*value.first_chunk()?),
            TAPRIO_ENTRIES => taprio.entries = attributes(value).filter_map(parse_entry).collect(),
            _ => {}
        }
    }
    Some(taprio)
}

fn parse_entry((_, entry): (u16, &[u8])) -> Option<(u32, u32)> {
    let find = |wanted| {
        attributes(entry).find(|(kind, _)| *kind == wanted).and_then(|(_, value)| number(value, 0))
    };
    Some((find(ENTRY_GATES)?, find(ENTRY_INTERVAL)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Qdisc; 4] {
        let queues = QueueMap { class_of: [1; 16], queues: vec![(0, 1), (1, 3)] };
        let etf = Etf { delta_ns: 200_000, offload: true, ..Etf::default() };
        let taprio = Taprio {
            queues: queues.clone(),
            base_time_ns: -5,
            entries: vec![(1, 300_000), (3, 700_000)],
        };
        [
            Discipline::Etf(etf),
            Discipline::Mqprio(queues),
            Discipline::Taprio(taprio),
            Discipline::Other("fq_codel".into()),
        ]
        .map(|discipline| Qdisc {
            handle: QdiscHandle { major: 0x100, minor: 0 },
            parent: QdiscHandle { major: 0x8001, minor: 2 },
            discipline,
        })
    }

    #[test]
    fn emitted_disciplines_are_parsed() {
        for qdisc in all() {
            let message = emit(7, &qdisc);
            assert_eq!(parse(&message, 7).unwrap(), Some(qdisc));
            assert_eq!(parse(&message, 8).unwrap(), None, "of another device");
        }
    }

    #[test]
    fn a_truncated_message_does_not_panic() {
        for message in all().map(|qdisc| emit(7, &qdisc)) {
            for len in 0..message.len() {
                let _ = parse(&message[..len], 7);
            }
            for place in HEADER..message.len() {
                let mut changed = message.clone();
                changed[place] ^= 0xff;
                let _ = parse(&changed, 7);
            }
        }
    }

    #[test]
    fn handles_have_the_notation_of_tc() {
        let [class, discipline] = [2, 0].map(|minor| QdiscHandle { major: 0x100, minor });
        let names = [class, discipline, QdiscHandle::ROOT].map(|handle| handle.to_string());
        assert_eq!(names, ["100:2", "100:", "root"]);
    }
}
