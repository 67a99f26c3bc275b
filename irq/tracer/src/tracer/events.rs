//! The recorded events of the programs.

use std::cell::RefCell;
use std::rc::Rc;

use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use onbeat_bpf::PlainData;

use super::decode;
use crate::abi::irq_event;
use crate::error::{Error, Result};
use onbeat_irq_core::charge::Event;

/// The events of a recording, in the order of each CPU.
#[derive(Debug)]
pub struct Events {
    buffer: RingBuffer<'static>,
    seen: Rc<RefCell<Vec<Event>>>,
}

impl Events {
    pub(super) fn new(map: &impl MapCore) -> Result<Self> {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&seen);
        let refused = |source| Error::kernel("open the buffer for events", source);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |octets| {
                let event = irq_event::from_octets(octets).as_ref().and_then(decode::event);
                into.borrow_mut().extend(event);
                0
            })
            .map_err(refused)?;
        Ok(Self { buffer: builder.build().map_err(refused)?, seen })
    }

    /// Returns the events since the last call.
    ///
    /// # Errors
    /// The kernel denies access.
    pub fn take(&mut self) -> Result<Vec<Event>> {
        self.buffer
            .consume()
            .map_err(|source| Error::kernel("read the buffer for events", source))?;
        Ok(self.seen.take())
    }
}
