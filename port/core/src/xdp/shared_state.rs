//! Data that this process changes while the program may read it: slots and responses.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use libbpf_rs::{MapCore, MapHandle};

use super::abi::{
    port_copy, port_filter, port_process, port_responses, port_slot, port_state, port_table,
    port_transmission, port_version,
};
use crate::mapping::{Mapping, page};
use crate::response::Responses;
use crate::xsk::MAX_FRAME;
use crate::{Filter, Slot};

const WORD: usize = size_of::<u64>();
const COPIES: usize = 4;

// Layout assumptions of the Rust side.
const _: () =
    assert!(size_of::<port_slot>() == size_of::<port_version>() + COPIES * size_of::<port_copy>());
const _: () = assert!(
    size_of::<[port_table; COPIES]>() + size_of::<port_version>() == size_of::<port_responses>()
);
const _: () =
    assert!(offset_of!(port_copy, octets) % WORD == 0 && size_of::<port_slot>() % WORD == 0);
const _: () = assert!(size_of::<port_copy>() - offset_of!(port_copy, octets) == MAX_FRAME);

fn map(map: &MapHandle) -> io::Result<Mapping> {
    let value = (map.value_size() as usize).next_multiple_of(WORD);
    let size = (value * map.max_entries() as usize).next_multiple_of(page());
    Mapping::new(Some(map.as_fd()), size, 0, true)
}

/// Writes octets word by word, the last one padded with zeros.
fn write(memory: &Mapping, at: usize, octets: &[u8]) {
    for (i, octets) in octets.chunks(WORD).enumerate() {
        let mut word = [0; WORD];
        word[..octets.len()].copy_from_slice(octets);
        memory.long(at + i * WORD).store(u64::from_ne_bytes(word), Ordering::Relaxed);
    }
}

/// Writes the next version at `at`: `write` writes the copy of that number.
///
/// A program that reads any part of the copy sees that it was started; a program that reads the version in
/// `current` sees all of its copy. See abi/port.h.
fn publish(memory: &Mapping, at: usize, write: impl FnOnce(usize)) {
    let version = |offset| -> &AtomicU32 { memory.word(at + offset) };
    let current = version(offset_of!(port_version, current));
    let next = current.load(Ordering::Relaxed).wrapping_add(1);
    version(offset_of!(port_version, begun)).store(next, Ordering::Relaxed);
    fence(Ordering::Release);
    write(next as usize % COPIES);
    current.store(next, Ordering::Release);
}

/// The frames that the program sends.
#[derive(Debug)]
pub(super) struct SharedSlots(Mapping);

impl SharedSlots {
    pub(super) fn new(handle: &MapHandle) -> io::Result<Self> {
        map(handle).map(Self)
    }

    /// Puts a frame into a slot.
    pub(super) fn update(&self, index: usize, frame: &[u8]) {
        let slot = index * size_of::<port_slot>();
        publish(&self.0, slot, |copy| {
            let copy = slot + offset_of!(port_slot, copies) + copy * size_of::<port_copy>();
            let length = self.0.word(copy + offset_of!(port_copy, length));
            length.store(frame.len() as u32, Ordering::Relaxed);
            write(&self.0, copy + offset_of!(port_copy, octets), frame);
        });
    }
}

/// The responses of the program.
#[derive(Debug)]
pub(super) struct SharedResponses(Mapping);

impl SharedResponses {
    pub(super) fn new(handle: &MapHandle) -> io::Result<Self> {
        map(handle).map(Self)
    }

    /// Replaces the responses.
    pub(super) fn set(&self, responses: &Responses) {
        publish(&self.0, 0, |copy| {
            let table = offset_of!(port_responses, tables) + copy * size_of::<port_table>();
            let mut count = 0;
            for (filter, slot) in responses.iter() {
                let at = table + offset_of!(port_table, filters) + count * size_of::<port_filter>();
                self.put(at, filter, slot);
                count += 1;
            }
            let of_table = self.0.long(table + offset_of!(port_table, count));
            of_table.store(count as u64, Ordering::Relaxed);
        });
    }

    fn put(&self, at: usize, filter: &Filter, slot: Slot) {
        for (offset, octets) in [
            (offset_of!(port_filter, value), filter.value()),
            (offset_of!(port_filter, mask), filter.mask()),
        ] {
            // After the end of the filter no bit is compared.
            let mut padded = [0; Filter::MAX_LEN];
            padded[..octets.len()].copy_from_slice(octets);
            write(&self.0, at + offset, &padded);
        }
        for (offset, number) in [
            (offset_of!(port_filter, length), filter.octets() as u32),
            (offset_of!(port_filter, slot), slot.index),
            (offset_of!(port_filter, generation), slot.generation),
        ] {
            self.0.word(at + offset).store(number, Ordering::Relaxed);
        }
    }
}

/// Further state shared by the program and this process.
#[derive(Debug)]
pub(super) struct SharedState(Mapping);

impl SharedState {
    pub(super) fn new(handle: &MapHandle) -> io::Result<Self> {
        map(handle).map(Self)
    }

    fn field(&self, offset: usize) -> &AtomicU64 {
        self.0.long(offset)
    }

    /// Sets for which requests the program must wake this process. Later operations are not reordered before it.
    pub(super) fn set_process(&self, process: port_process) {
        let field = self.field(offset_of!(port_state, process));
        field.store(process.0.into(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Sets how the program sends answers.
    pub(super) fn set_transmission(&self, transmission: port_transmission) {
        let field = self.field(offset_of!(port_state, transmission));
        field.store(transmission.0.into(), Ordering::Relaxed);
    }

    /// Frames that were not reported to this process: answered, and not answered.
    pub(super) fn unreported(&self) -> (u64, u64) {
        let read = |offset| self.field(offset).load(Ordering::Relaxed);
        (
            read(offset_of!(port_state, answered_unreported)),
            read(offset_of!(port_state, unanswered_unreported)),
        )
    }
}
