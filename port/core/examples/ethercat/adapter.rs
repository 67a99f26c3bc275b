//! A protocol stack on the port: the transmit and receive halves of ethercrab, an
//! EtherCAT main device, adapted to any back end.
//!
//! ```text
//!   MainDevice, a future ── PduTx ── update, send ──┐
//!        ▲ polled            PduRx ◄── receive ──── Port
//!        └──────────────── wait ◄───────────────────┘
//! ```
//!
//! There is one thread, which waits in [`Port::wait`] alone: a frame that comes is handed to
//! ethercrab, and the task that waits for it goes on, without a change of threads in between.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use ethercrab::error::Error as EthercatError;
use ethercrab::{PduRx, PduTx};
use onbeat_link::{Port, Result, Slot, Time};
use onbeat_wire::EtherType;

/// The requirements of the port.
pub(crate) const ETHER_TYPE: EtherType = EtherType(0x88a4);

/// Longest frame of ethercrab: that of standard Ethernet, without FCS.
const MAX_FRAME: usize = 1514;

/// Maximum delay of a timeout of ethercrab, in nanoseconds, and delay of a frame of
/// another thread: neither ends a wait.
const TICK_NS: u64 = 1_000_000;

/// An EtherCAT bus on a port.
pub(crate) struct Bus<'a> {
    port: &'a mut dyn Port,
    slot: Slot,
    tx: PduTx<'a>,
    rx: PduRx<'a>,
    strays: u64,
}

impl<'a> Bus<'a> {
    /// Puts a bus on a port that was opened for [`ETHER_TYPE`].
    pub(crate) fn new(port: &'a mut dyn Port, tx: PduTx<'a>, rx: PduRx<'a>) -> Result<Self> {
        // One slot is enough: `send` hands the frame over before it returns.
        let slot = port.allocate(MAX_FRAME)?;
        Ok(Self { port, slot, tx, rx, strays: 0 })
    }

    /// Runs a task of ethercrab to its end, on this thread.
    ///
    /// # Errors
    /// Of the port, where it is not for ethercrab to wait until it passes.
    pub(crate) fn run<F: Future>(&mut self, future: F) -> Result<F::Output> {
        let mut future = pin!(future);
        // Nobody has to be woken: the future is polled after each wait.
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Ok(output);
            }
            self.send()?;
            self.receive(self.port.now().after(TICK_NS))?;
        }
    }

    /// Waits for the next cycle.
    pub(crate) fn sleep_until(&mut self, time: Time) -> Result<()> {
        while self.port.now() < time {
            self.receive(time)?;
        }
        Ok(())
    }

    /// The time of the port's clock.
    pub(crate) fn now(&self) -> Time {
        self.port.now()
    }

    /// Frames received that ethercrab did not wait for (any more), or could not read.
    pub(crate) fn strays(&self) -> u64 {
        self.strays
    }

    fn send(&mut self) -> Result<()> {
        while let Some(frame) = self.tx.next_sendable_frame() {
            let mut result = Ok(());
            let sent = frame.send_blocking(|octets| {
                result =
                    self.port.update(self.slot, octets).and_then(|()| self.port.send(self.slot));
                if result.is_ok() { Ok(octets.len()) } else { Err(EthercatError::SendFrame) }
            });
            match result {
                Ok(()) => debug_assert!(sent.is_ok()),
                // The frame stays sendable, and ethercrab says when it has waited long enough.
                Err(error) if error.is_congestion() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self, until: Time) -> Result<()> {
        self.port.wait(until)?;
        // Where they are not turned off, confirmations that wait would end each wait at once.
        while self.port.confirmation()?.is_some() {}
        while let Some(frame) = self.port.receive()? {
            let taken = self.rx.receive_frame(self.port.octets(&frame));
            self.port.release(frame);
            // Anybody can put a frame on the wire: it must not end what runs.
            self.strays += u64::from(taken.is_err());
        }
        Ok(())
    }
}

impl Drop for Bus<'_> {
    fn drop(&mut self) {
        // The port goes on without the bus. A slot of its own that answers nothing can be freed.
        let _ = self.port.free(self.slot);
    }
}
