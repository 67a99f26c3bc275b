//! Hard interrupts, and the senders of those from other CPUs.

use serde::{Deserialize, Serialize};

use super::{Process, Softirq};

/// A hard interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interrupt {
    /// Of a device, by the number of its line.
    Line(u32),
    /// Of the CPU's own controller.
    Vector(Vector),
    /// Of another CPU (IPI).
    Ipi {
        /// Its reason.
        reason: IpiReason,
        /// Its sender.
        sender: IpiSender,
    },
}

/// An interrupt of the CPU's own controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vector {
    /// Ticks and high-resolution timers.
    LocalTimer,
    /// Work that the kernel defers to an interrupt.
    IrqWork,
    /// The CPU's temperature.
    Thermal,
}

/// The reason of an interrupt that another CPU sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IpiReason {
    /// A task that runs before the current one.
    Reschedule,
    /// The wake-up of a task on an idle CPU, or on one that shares no cache with the sender.
    WakeUp,
    /// Packets (receive packet steering).
    Rps,
    /// Another function.
    Call,
    /// A function on several CPUs, such as a TLB shootdown.
    Broadcast,
}

/// The sender of an interrupt. Of interrupts that arrive as one, it is the last sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IpiSender {
    /// A process, or one whose packet was delivered at that moment.
    Process(Process),
    /// A softirq; the interrupted task did not send it.
    Softirq(Softirq),
    /// Another hard interrupt.
    Interrupt,
    /// The idle task.
    Idle,
    /// Not observed.
    Unknown,
}

/// Time and number of interrupts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InterruptAmount {
    /// Nanoseconds.
    pub ns: u64,
    /// Interrupts.
    pub count: u64,
}

impl InterruptAmount {
    /// Adds another amount to this one.
    pub fn add(&mut self, other: InterruptAmount) {
        self.ns += other.ns;
        self.count += other.count;
    }

    /// The part added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: InterruptAmount) -> InterruptAmount {
        InterruptAmount {
            ns: self.ns.saturating_sub(earlier.ns),
            count: self.count.saturating_sub(earlier.count),
        }
    }
}

impl Vector {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Vector::LocalTimer => "local timer",
            Vector::IrqWork => "irq work",
            Vector::Thermal => "thermal",
        }
    }
}

impl IpiReason {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            IpiReason::Reschedule => "reschedule",
            IpiReason::WakeUp => "wake-up",
            IpiReason::Rps => "rps",
            IpiReason::Call => "function call",
            IpiReason::Broadcast => "broadcast",
        }
    }
}
