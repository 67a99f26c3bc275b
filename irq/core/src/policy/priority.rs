//! Steps 1 and 2: a device's softirq work has the highest priority of the processes that wait for it.

use std::collections::BTreeMap;

use thiserror::Error;

use super::Rank;

/// Limits of the priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The minimum, so that packets without a waiting process (management, ARP) make progress.
    pub floor: Rank,
    /// The maximum: packets never preempt tasks above it.
    pub ceiling: Rank,
    /// Time without a process that waits at a priority, after which it is lowered, in nanoseconds. It is raised at
    /// once.
    pub hold_ns: u64,
}

impl Default for Settings {
    /// Between the normal policy and SCHED_FIFO 98 (the kernel uses 99: migration, watchdog); lowered after 100
    /// ms.
    fn default() -> Self {
        Self {
            floor: Rank::Normal { nice: 0 },
            ceiling: Rank::Realtime { priority: 98 },
            hold_ns: 100_000_000,
        }
    }
}

/// Settings that contradict each other or the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The range is empty.
    #[error("floor {floor} is above ceiling {ceiling}; lower the floor or raise the ceiling")]
    Empty {
        /// The configured floor.
        floor: Rank,
        /// The configured ceiling.
        ceiling: Rank,
    },
    /// A policy that a NAPI thread cannot have.
    #[error("invalid priority {0} of a NAPI thread; use at most real-time 99")]
    NotForNapi(Rank),
}

/// The reason for a device's priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason<W> {
    /// The waiting process with the highest priority.
    Waiter(W),
    /// This process waits with a higher priority than the ceiling.
    Ceiling(W),
    /// No process waits with a higher priority than the floor.
    Floor,
}

/// A change of priority to apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<D, W> {
    /// The device whose softirq work changes.
    pub device: D,
    /// The present priority.
    pub from: Rank,
    /// The new priority.
    pub to: Rank,
    /// The reason.
    pub reason: Reason<W>,
}

#[derive(Debug, Clone)]
struct Device<W> {
    /// The priority last set.
    rank: Rank,
    /// Since when all waiting processes are below that priority.
    below_since_ns: Option<u64>,
    waiters: BTreeMap<W, Rank>,
}

/// Decides the priorities of devices `D` that processes `W` wait for.
#[derive(Debug, Clone)]
pub struct Policy<D: Ord, W: Ord> {
    settings: Settings,
    devices: BTreeMap<D, Device<W>>,
}

impl<D: Ord + Copy, W: Ord + Copy> Policy<D, W> {
    /// Returns a policy without devices.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(settings: Settings) -> Result<Self, ConfigError> {
        let Settings { floor, ceiling, .. } = settings;
        if let Some(unfit) = [floor, ceiling].into_iter().find(|rank| *rank == Rank::Deadline) {
            return Err(ConfigError::NotForNapi(unfit));
        }
        if floor > ceiling {
            return Err(ConfigError::Empty { floor, ceiling });
        }
        Ok(Self { settings, devices: BTreeMap::new() })
    }

    /// Adds a device whose softirq work has `rank`. A known device keeps its waiting processes.
    pub fn add_device(&mut self, device: D, rank: Rank) {
        self.devices
            .entry(device)
            .and_modify(|known| (known.rank, known.below_since_ns) = (rank, None))
            .or_insert(Device { rank, below_since_ns: None, waiters: BTreeMap::new() });
    }

    /// Removes a device that no longer exists.
    pub fn remove_device(&mut self, device: D) {
        self.devices.remove(&device);
    }

    /// Records that a process waits for a device, or changes its priority there. An unknown device is ignored.
    pub fn add_waiter(&mut self, device: D, waiter: W, rank: Rank) {
        if let Some(device) = self.devices.get_mut(&device) {
            device.waiters.insert(waiter, rank);
        }
    }

    /// Records that a process no longer waits for a device.
    pub fn remove_waiter(&mut self, device: D, waiter: W) {
        if let Some(device) = self.devices.get_mut(&device) {
            device.waiters.remove(&waiter);
        }
    }

    /// Changes the priority of a process on all devices that it waits for.
    pub fn set_rank(&mut self, waiter: W, rank: Rank) {
        for device in self.devices.values_mut() {
            device.waiters.entry(waiter).and_modify(|known| *known = rank);
        }
    }

    /// Removes a process that has exited.
    pub fn remove_process(&mut self, waiter: W) {
        for device in self.devices.values_mut() {
            device.waiters.remove(&waiter);
        }
    }

    /// Whether a process waits for a device.
    #[must_use]
    pub fn has_waiters(&self, device: D) -> bool {
        self.devices.get(&device).is_some_and(|device| !device.waiters.is_empty())
    }

    /// Returns the changes due now. Each counts as applied; if one fails, the caller reports the actual rank
    /// with [`Policy::add_device`].
    pub fn changes(&mut self, now_ns: u64) -> Vec<Change<D, W>> {
        let settings = self.settings;
        let changes = self.devices.iter_mut().filter_map(|(device, state)| {
            let (to, reason) = state.target(&settings);
            let from = state.rank;
            if to >= from {
                state.below_since_ns = None;
            }
            if to < from {
                let since = *state.below_since_ns.get_or_insert(now_ns);
                if now_ns.saturating_sub(since) < settings.hold_ns {
                    return None;
                }
                state.below_since_ns = None;
            }
            state.rank = to;
            (to != from).then_some(Change { device: *device, from, to, reason })
        });
        changes.collect()
    }

    /// When to call [`Policy::changes`] again without a new event: a priority is held until then.
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let held = self.devices.values().filter_map(|device| device.below_since_ns);
        held.min().map(|since| since.saturating_add(self.settings.hold_ns))
    }
}

impl<W: Ord + Copy> Device<W> {
    /// rho_max(D), within the limits.
    fn target(&self, settings: &Settings) -> (Rank, Reason<W>) {
        // Among equals the first by order, so that the reason does not flicker.
        let highest = self.waiters.iter().rev().max_by_key(|(_, rank)| **rank);
        match highest {
            Some((waiter, rank)) if *rank > settings.ceiling => {
                (settings.ceiling, Reason::Ceiling(*waiter))
            }
            Some((waiter, rank)) if *rank > settings.floor => (*rank, Reason::Waiter(*waiter)),
            _ => (settings.floor, Reason::Floor),
        }
    }
}
