//! Steps 1 and 2: the bottom half of a device has the priority of the highest that waits for it.

use std::collections::BTreeMap;

use thiserror::Error;

use super::Rank;

/// How priorities follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// What a bottom half has at least, so that packets nobody waits for (management, ARP) get by.
    pub floor: Rank,
    /// What it has at most, whoever waits: the tasks above are never held up by packets.
    pub ceiling: Rank,
    /// How long nobody must have waited at a priority until it is given up, in nanoseconds. Taken
    /// it is at once.
    pub hold_ns: u64,
}

impl Default for Settings {
    /// Between the normal policy and SCHED_FIFO 98 (99 is the kernel's own: migration, watchdog);
    /// given up after 100 ms.
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
    /// Nothing lies between them.
    #[error("floor {floor} is above ceiling {ceiling}; lower the floor or raise the ceiling")]
    Empty {
        /// As set.
        floor: Rank,
        /// As set.
        ceiling: Rank,
    },
    /// A thread of NAPI cannot run by a policy that reserves time.
    #[error("{0} is no priority for a thread of NAPI; use one up to real-time 99")]
    Unfit(Rank),
}

/// Why a bottom half has its priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason<W> {
    /// This one waits, and nobody with a higher priority.
    Waiter(W),
    /// This one waits with a higher priority than the ceiling.
    Ceiling(W),
    /// Nobody waits with a higher priority than the floor.
    Floor,
}

/// A priority that is to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<D, W> {
    /// The device whose bottom half it is.
    pub device: D,
    /// What it has.
    pub from: Rank,
    /// What it is to have.
    pub to: Rank,
    /// Why.
    pub reason: Reason<W>,
}

#[derive(Debug, Clone)]
struct Device<W> {
    /// As it was last set.
    rank: Rank,
    /// Since when everybody who waits is below that.
    below_since_ns: Option<u64>,
    waiters: BTreeMap<W, Rank>,
}

/// Decides on the bottom halves of devices `D` that processes `W` wait for.
#[derive(Debug, Clone)]
pub struct Policy<D: Ord, W: Ord> {
    settings: Settings,
    devices: BTreeMap<D, Device<W>>,
}

impl<D: Ord + Copy, W: Ord + Copy> Policy<D, W> {
    /// Without devices.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(settings: Settings) -> Result<Self, ConfigError> {
        let Settings { floor, ceiling, .. } = settings;
        if let Some(unfit) = [floor, ceiling].into_iter().find(|rank| *rank == Rank::Deadline) {
            return Err(ConfigError::Unfit(unfit));
        }
        if floor > ceiling {
            return Err(ConfigError::Empty { floor, ceiling });
        }
        Ok(Self { settings, devices: BTreeMap::new() })
    }

    /// Takes a device whose bottom half has `rank`. One that is known keeps its waiters.
    pub fn add_device(&mut self, device: D, rank: Rank) {
        self.devices
            .entry(device)
            .and_modify(|known| (known.rank, known.below_since_ns) = (rank, None))
            .or_insert(Device { rank, below_since_ns: None, waiters: BTreeMap::new() });
    }

    /// Forgets a device that has vanished.
    pub fn remove_device(&mut self, device: D) {
        self.devices.remove(&device);
    }

    /// A process waits for a device, or does so with another priority than before. Of a device that
    /// is not known nothing is noted.
    pub fn wait(&mut self, device: D, waiter: W, rank: Rank) {
        if let Some(device) = self.devices.get_mut(&device) {
            device.waiters.insert(waiter, rank);
        }
    }

    /// A process waits for a device no more.
    pub fn leave(&mut self, device: D, waiter: W) {
        if let Some(device) = self.devices.get_mut(&device) {
            device.waiters.remove(&waiter);
        }
    }

    /// The priority of a process has changed, wherever it waits.
    pub fn reprioritise(&mut self, waiter: W, rank: Rank) {
        for device in self.devices.values_mut() {
            device.waiters.entry(waiter).and_modify(|known| *known = rank);
        }
    }

    /// A process has ended.
    pub fn depart(&mut self, waiter: W) {
        for device in self.devices.values_mut() {
            device.waiters.remove(&waiter);
        }
    }

    /// Whether anybody waits for a device.
    #[must_use]
    pub fn is_awaited(&self, device: D) -> bool {
        self.devices.get(&device).is_some_and(|device| !device.waiters.is_empty())
    }

    /// What is to be changed now. Each change counts as done; who cannot carry one out says so by
    /// [`Policy::add_device`] with the rank that the bottom half has.
    pub fn changes(&mut self, now_ns: u64) -> Vec<Change<D, W>> {
        let settings = self.settings;
        let changes = self.devices.iter_mut().filter_map(|(device, state)| {
            let (to, reason) = state.wanted(&settings);
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

    /// When to look again although nothing has happened: a priority is held until then.
    #[must_use]
    pub fn next_deadline_ns(&self) -> Option<u64> {
        let held = self.devices.values().filter_map(|device| device.below_since_ns);
        held.min().map(|since| since.saturating_add(self.settings.hold_ns))
    }
}

impl<W: Ord + Copy> Device<W> {
    /// rho_max(D), within the limits.
    fn wanted(&self, settings: &Settings) -> (Rank, Reason<W>) {
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
