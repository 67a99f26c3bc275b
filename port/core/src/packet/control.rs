//! Control messages: transmissions and their times from the error queue; the launch time of a frame to send.

use crate::{Stamp, StampSource, Time};

/// Length of a header: length with header (as wide as a pointer), level, type.
const HEADER: usize = size_of::<usize>() + 8;
/// `struct sock_extended_err`.
const EXTENDED_ERROR: usize = 16;
/// `struct scm_timestamping`: three `struct timespec`.
const TIMESTAMPING: usize = 3 * size_of::<libc::timespec>();

/// Buffer size for the messages of one confirmation.
pub(super) const ROOM: usize = 256;

/// `SO_EE_ORIGIN_TXTIME` of linux/errqueue.h.
const ORIGIN_TXTIME: u8 = 6;

/// An event of the error queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorQueueEvent {
    /// A frame was sent.
    Left(Transmission),
    /// The queueing discipline dropped a frame with this launch time: it was submitted too late, or was still
    /// queued when its time had passed.
    Missed(Time),
}

/// A reported transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transmission {
    /// The number of the frame on the socket, from 0, wrapping.
    pub(super) id: u32,
    pub(super) stamp: Stamp,
}

/// Decodes the control messages of one entry of the error queue. `None`: it is of neither kind.
pub(super) fn news(mut octets: &[u8]) -> Option<ErrorQueueEvent> {
    let (mut id, mut stamp) = (None, None);
    while let Some((level, kind, data, rest)) = next(octets) {
        match (level, kind) {
            (libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP) => {
                if let Some(time) = missed(data) {
                    return Some(ErrorQueueEvent::Missed(time));
                }
                id = extended_error(data);
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => stamp = timestamping(data),
            _ => {}
        }
        octets = rest;
    }
    Some(ErrorQueueEvent::Left(Transmission { id: id?, stamp: stamp? }))
}

/// The control message with the launch time of a frame.
#[repr(C, align(8))]
pub(super) struct LaunchTime([u8; HEADER + size_of::<u64>()]);

impl LaunchTime {
    pub(super) fn at(time: Time) -> Self {
        let mut octets = [0; HEADER + size_of::<u64>()];
        let (len, rest) = octets.split_at_mut(size_of::<usize>());
        len.copy_from_slice(&(HEADER + size_of::<u64>()).to_ne_bytes());
        rest[..4].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        rest[4..8].copy_from_slice(&libc::SCM_TXTIME.to_ne_bytes());
        rest[8..].copy_from_slice(&time.0.to_ne_bytes());
        Self(octets)
    }

    pub(super) fn octets(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Returns the launch time of a dropped frame: its halves are in information and data.
fn missed(data: &[u8]) -> Option<Time> {
    let error: &[u8; EXTENDED_ERROR] = data.first_chunk()?;
    let half = |at: usize| error[at..].first_chunk().map(|octets| u32::from_ne_bytes(*octets));
    let time = u64::from(half(12)?) << 32 | u64::from(half(8)?);
    (error[4] == ORIGIN_TXTIME).then_some(Time(time))
}

/// Returns level, type and data of the first message, and the rest.
fn next(octets: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    let (len, rest) = octets.split_first_chunk()?;
    let (level, rest) = rest.split_first_chunk()?;
    let (kind, _) = rest.split_first_chunk()?;
    let len = usize::from_ne_bytes(*len);
    let data = octets.get(HEADER..len)?;
    // The last message may lack padding.
    let behind = len.checked_next_multiple_of(size_of::<usize>())?;
    let rest = octets.get(behind..).unwrap_or_default();
    Some((i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind), data, rest))
}

/// Returns the number of the transmission if the message is of a time stamp.
fn extended_error(data: &[u8]) -> Option<u32> {
    let error: &[u8; EXTENDED_ERROR] = data.first_chunk()?;
    let errno = u32::from_ne_bytes(*error[..4].first_chunk()?);
    let is_stamp = errno == libc::ENOMSG as u32 && error[4] == libc::SO_EE_ORIGIN_TIMESTAMPING;
    let number = u32::from_ne_bytes(*error[12..].first_chunk()?);
    is_stamp.then_some(number)
}

/// Returns the NIC time stamp if there is one, else that of the driver.
fn timestamping(data: &[u8]) -> Option<Stamp> {
    let times: &[u8; TIMESTAMPING] = data.first_chunk()?;
    let [software, _, hardware] = [0, 1, 2].map(|i| nanoseconds(&times[i * TIMESTAMPING / 3..]));
    let stamp = |ns: Option<u64>, source| ns.filter(|ns| *ns != 0).map(|ns| Stamp { ns, source });
    stamp(hardware, StampSource::Hardware).or(stamp(software, StampSource::Software))
}

fn nanoseconds(time: &[u8]) -> Option<u64> {
    const WIDTH: usize = size_of::<libc::time_t>();
    let seconds = libc::time_t::from_ne_bytes(*time.first_chunk()?);
    let part = libc::c_long::from_ne_bytes(*time.get(WIDTH..)?.first_chunk()?);
    u64::try_from(seconds).ok()?.checked_mul(1_000_000_000)?.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut octets = (HEADER + data.len()).to_ne_bytes().to_vec();
        octets.extend(level.to_ne_bytes());
        octets.extend(kind.to_ne_bytes());
        octets.extend(data);
        octets.resize(octets.len().next_multiple_of(size_of::<usize>()), 0);
        octets
    }

    fn stamps(software: libc::time_t, hardware: libc::time_t) -> Vec<u8> {
        let mut data = Vec::new();
        for seconds in [software, 0, hardware] {
            data.extend(seconds.to_ne_bytes());
            data.extend(libc::c_long::from(seconds != 0).to_ne_bytes());
        }
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &data)
    }

    fn number(errno: i32, origin: u8, id: u32) -> Vec<u8> {
        let mut data = errno.to_ne_bytes().to_vec();
        data.extend([origin, 0, 0, 0, 0, 0, 0, 0]);
        data.extend(id.to_ne_bytes());
        // The kernel appends the address of the offender.
        data.extend([0; 16]);
        message(libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP, &data)
    }

    fn transmitted(octets: &[u8]) -> Option<Transmission> {
        match news(octets)? {
            ErrorQueueEvent::Left(transmitted) => Some(transmitted),
            ErrorQueueEvent::Missed(time) => panic!("missed {time:?}"),
        }
    }

    #[test]
    fn an_encoded_launch_time_is_decoded_when_missed() {
        let time = Time(0x1234_5678_9abc_def0);
        let mut launch = LaunchTime::at(time);
        let (level, kind, data, rest) = next(launch.octets()).unwrap();
        assert_eq!((level, kind, rest), (libc::SOL_SOCKET, libc::SCM_TXTIME, &[][..]));
        assert_eq!(data, time.0.to_ne_bytes());

        let mut data = libc::ECANCELED.to_ne_bytes().to_vec();
        data.extend([ORIGIN_TXTIME, 0, 2, 0]);
        data.extend(0x9abc_def0_u32.to_ne_bytes());
        data.extend(0x1234_5678_u32.to_ne_bytes());
        let octets = message(libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP, &data);
        assert_eq!(news(&octets), Some(ErrorQueueEvent::Missed(time)));
    }

    const ORIGIN: u8 = libc::SO_EE_ORIGIN_TIMESTAMPING;

    #[test]
    fn hardware_stamps_take_precedence() {
        use StampSource::{Hardware, Software};
        for (software, hardware, expected) in [
            (5, 0, Some((5_000_000_001, Software))),
            (0, 7, Some((7_000_000_001, Hardware))),
            (5, 7, Some((7_000_000_001, Hardware))),
            (0, 0, None),
            (-5, 0, None),
        ] {
            let mut octets = stamps(software, hardware);
            octets.extend(number(libc::ENOMSG, ORIGIN, 0xffff_fffe));
            let found = transmitted(&octets);
            let expected = expected
                .map(|(ns, source)| Transmission { id: 0xffff_fffe, stamp: Stamp { ns, source } });
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn other_errors_are_not_stamps() {
        for other in [number(libc::ENOBUFS, ORIGIN, 1), number(libc::ENOMSG, 1, 1), Vec::new()] {
            let octets = [stamps(5, 0), other].concat();
            assert_eq!(transmitted(&octets), None);
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_decoded_without_panic(octets in proptest::collection::vec(any::<u8>(), 0..ROOM)) {
            let _ = news(&octets);
        }

        #[test]
        fn a_truncated_or_changed_message_is_not_read_beyond_its_end(
            cut in 0..200_usize,
            place in any::<prop::sample::Index>(),
            octet in any::<u8>(),
        ) {
            let mut octets = [stamps(5, 7), number(libc::ENOMSG, ORIGIN, 3)].concat();
            let place = place.index(octets.len());
            octets[place] = octet;
            octets.truncate(cut);
            let _ = news(&octets);
        }
    }
}
