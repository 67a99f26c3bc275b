//! The ledger charges softirq time to the processes that cause it, and to the tasks on whose time it runs.
//!
//! Pure: it receives [`Event`]s and returns [`Accounts`]. The BPF programs of irq/tracer implement the same
//! rules in the kernel, and are tested against this code.
//!
//! Softirq time is the time that the kernel spends in softirqs and in NAPI threads, without the hard interrupts
//! within. Each nanosecond has a [`Cause`] and a [`Runner`], the task on whose time it ran. Time without a
//! known cause is [`Class::Unattributed`]; it is not spread over processes.
//!
//! The time of hard interrupts has accounts of its own: by [`Interrupt`], and by the interrupted task.

mod account;
mod cause;
mod event;
mod interrupt;
mod ledger;
mod merge;
mod poll;
pub mod sample;
pub mod tick;

pub use account::{Accounts, Amount};
pub use cause::{
    Attribution, Cause, Class, Device, Owner, Process, ReceiveQueue, Runner, Softirq, Verdict,
};
pub use event::{Event, EventKind};
pub use interrupt::{Interrupt, InterruptAmount, IpiReason, IpiSender, Vector};
pub use ledger::Ledger;
pub use poll::{MAX_CAUSES, PollReport};
