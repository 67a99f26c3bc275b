//! The ledger: bottom-half time, charged to who causes it, beside who suffers it.
//!
//! Pure: what happens goes in as [`Event`]s, [`Accounts`] come out. The programs of irq/tracer do the
//! same in the kernel, and are tested against this.
//!
//! Bottom-half time is what the kernel spends in softirqs and in threads of NAPI, without the hard
//! interrupts within. Of each nanosecond of it the ledger says two things: for whom it was spent
//! ([`Cause`]), and on whose time ([`Runner`]). What cannot be told is said to be
//! [`Class::Unattributed`]; it is spread over nobody.

mod account;
mod cause;
mod event;
mod ledger;
mod poll;
pub mod sample;
pub mod tick;

pub use account::{Accounts, Amount};
pub use cause::{Cause, Class, Device, Owner, Process, Runner, Softirq};
pub use event::{Event, What};
pub use ledger::Ledger;
pub use poll::{MAX_CAUSES, Polled};
