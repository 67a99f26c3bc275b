//! Records of the frames that matched a response: a BPF ring buffer.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use libbpf_rs::{MapCore, MapHandle};

use super::abi::port_record;
use crate::mapping::{Mapping, page};

/// The header of each record: its length, and two flags.
const HEADER: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// Returns the octets of the ring that a record occupies.
const fn taken(len: usize) -> usize {
    (len + HEADER).next_multiple_of(8)
}

/// Returns the size of a ring for this number of records.
pub(super) fn ring_size(records: usize) -> u32 {
    (records * taken(size_of::<port_record>())).max(page()).next_power_of_two() as u32
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

    /// Passes the oldest record to `take` and releases it; returns false if there is none.
    pub(super) fn next(&mut self, mut take: impl FnMut(&port_record)) -> bool {
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
                let record = self.producer.at(place + HEADER, size_of::<port_record>());
                // SAFETY: the record is in the mapping, aligned to eight octets, and does not change until the
                // consumer's position passes it; any octets are valid.
                take(unsafe { &*record.cast::<port_record>() });
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

const _: () = assert!(offset_of!(port_record, octets) == 32);
