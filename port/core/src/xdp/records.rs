//! Records of the frames that matched a response: a BPF ring buffer.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::slice;
use std::sync::atomic::Ordering;

use libbpf_rs::{MapCore, MapHandle};

use super::abi::port_record;
use crate::mapping::{Mapping, page};
use crate::xsk::MAX_FRAME;

/// The header of each record: its length, and two flags.
const HEADER: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// Returns the octets of the ring that a record occupies.
const fn taken(len: usize) -> usize {
    (len + HEADER).next_multiple_of(8)
}

/// Returns the size of a ring for this number of records with the longest frames.
pub(super) fn ring_size(records: usize) -> u32 {
    (records * taken(size_of::<port_record>() + MAX_FRAME)).max(page()).next_power_of_two() as u32
}

/// The consumer of the ring.
#[derive(Debug)]
pub(super) struct Records {
    consumer: Mapping,
    /// A page with the producer's position, then the ring, twice: no record wraps at its end.
    producer: Mapping,
    size: usize,
    page: usize,
    map: MapHandle,
}

impl Records {
    pub(super) fn new(map: MapHandle) -> io::Result<Self> {
        let (size, page) = (map.max_entries() as usize, page());
        let consumer = Mapping::new(Some(map.as_fd()), page, 0, true)?;
        let producer = Mapping::new(Some(map.as_fd()), page + 2 * size, page as u64, false)?;
        Ok(Self { consumer, producer, size, page, map })
    }

    /// Passes the oldest record, and the octets after it, to `take` and releases them; returns false if there is none.
    pub(super) fn next(&mut self, mut take: impl FnMut(&port_record, &[u8])) -> bool {
        let consumer = self.consumer.long(0);
        let mut at = consumer.load(Ordering::Relaxed);
        while at < self.producer.long(0).load(Ordering::Acquire) {
            let place = self.page + at as usize % self.size;
            let header = self.producer.word(place).load(Ordering::Acquire);
            if header & BUSY != 0 {
                return false;
            }
            let len = (header & !DISCARDED) as usize;
            let record = header & DISCARDED == 0 && len >= size_of::<port_record>();
            if record {
                let start = self.producer.at(place + HEADER, len);
                // SAFETY: `len` octets are in the mapping, aligned to eight octets, and do not change until the
                // consumer's position passes them; any octets are valid; a record is not longer.
                let (record, octets) = unsafe {
                    let octets = start.add(size_of::<port_record>());
                    let count = len - size_of::<port_record>();
                    (&*start.cast::<port_record>(), slice::from_raw_parts(octets, count))
                };
                take(record, octets);
            }
            at += taken(len) as u64;
            consumer.store(at, Ordering::Release);
            if record {
                return true;
            }
        }
        false
    }
}

impl AsFd for Records {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

const _: () = assert!(offset_of!(port_record, octets) == size_of::<port_record>());
