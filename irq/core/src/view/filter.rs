//! Filters of the table.

use super::Table;

impl Table {
    /// Keeps packets received or sent by a device: `eth0`, in any network namespace, or `eth0@4026532281`. For
    /// processes this applies to time caused. Time suffered has no device, and stays with the remaining
    /// processes. Hard interrupts have no device of the network.
    pub fn keep_device(&mut self, device: &str) {
        let is = |name: &String| is_device(name, device);
        self.processes = std::mem::take(&mut self.processes)
            .into_iter()
            .map(|mut row| {
                let parts = std::mem::take(&mut row.parts);
                row.with_parts(parts.into_iter().filter(|part| is(&part.device)).collect())
            })
            .filter(|row| !row.parts.is_empty())
            .collect();
        self.name_time();
        self.interrupts.clear();
        self.queues.retain(|row| is(&row.device));
        self.unowned.retain(|row| [&row.device, &row.to].into_iter().flatten().any(is));
    }

    /// The devices of the table, by name.
    #[must_use]
    pub fn devices(&self) -> Vec<String> {
        let of_processes =
            self.processes.iter().flat_map(|row| &row.parts).map(|part| &part.device);
        let unowned = self.unowned.iter().flat_map(|row| [&row.device, &row.to]).flatten();
        let mut devices: Vec<String> =
            of_processes.chain(unowned).filter(|name| *name != "-").cloned().collect();
        devices.sort();
        devices.dedup();
        devices
    }
}

fn is_device(name: &str, wanted: &str) -> bool {
    name == wanted || name.split_once('@').is_some_and(|(name, _)| name == wanted)
}
