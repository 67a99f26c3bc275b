//! Names that the kernel saved at the first sight of a process, for those that have exited.

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use onbeat_bpf::PlainData;
use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::Description;

use super::{descriptions, users};
use crate::abi::{irq_cgroup, irq_owner, irq_process};

/// Maximum depth of a control group that the kernel saves.
const MAX_DEPTH: usize = 32;

/// The tables of saved names.
#[derive(Debug)]
pub(crate) struct SavedNames {
    processes: MapHandle,
    groups: MapHandle,
}

impl SavedNames {
    pub(crate) fn new(processes: MapHandle, groups: MapHandle) -> Self {
        Self { processes, groups }
    }

    /// The last saved description of a process; `None` if it was evicted.
    pub(super) fn describe(&self, Process { pid, start_ticks }: Process) -> Option<Description> {
        let key = irq_owner { pid, start_ticks };
        let saved: irq_process = read(&self.processes, key.octets())?;
        let command = until_zero(&saved.command.map(|octet| octet as u8)).into();
        let path = self.path(saved.cgroup);
        let description = descriptions::of(command, path.as_deref());
        Some(Description { user: Some(users::name(saved.user)), ..description })
    }

    /// The path of a group; `None` if the kernel did not save one of its parents.
    fn path(&self, id: u64) -> Option<Vec<u8>> {
        path_of(id, |id| {
            let group: irq_cgroup = read(&self.groups, &id.to_ne_bytes())?;
            let name = group.name.map(|octet| octet as u8);
            Some((group.parent, until_zero(&name).to_vec()))
        })
    }
}

/// The path by names of groups and the ids of their parents.
fn path_of(id: u64, group: impl Fn(u64) -> Option<(u64, Vec<u8>)>) -> Option<Vec<u8>> {
    let mut names = Vec::new();
    let mut next = id;
    while next != 0 {
        let (parent, name) = group(next).filter(|_| names.len() < MAX_DEPTH)?;
        names.push(name);
        next = parent;
    }
    // The root has no name of its own.
    names.pop()?;
    names.push(Vec::new());
    names.reverse();
    let path = names.join(&b'/');
    Some(if path.is_empty() { b"/".into() } else { path })
}

fn read<T: PlainData>(table: &MapHandle, key: &[u8]) -> Option<T> {
    T::from_octets(&table.lookup(key, MapFlags::ANY).ok()??)
}

fn until_zero(octets: &[u8]) -> &[u8] {
    octets.split(|octet| *octet == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_by_parents() {
        let groups = |id| match id {
            1 => Some((0, b"".to_vec())),
            2 => Some((1, b"system.slice".to_vec())),
            3 => Some((2, b"a.service".to_vec())),
            4 => Some((9, b"lost".to_vec())),
            5 => Some((5, b"loop".to_vec())),
            _ => None,
        };
        for (id, path) in [
            (1, Some("/")),
            (2, Some("/system.slice")),
            (3, Some("/system.slice/a.service")),
            (4, None),
            (5, None),
            (0, None),
        ] {
            assert_eq!(path_of(id, groups).as_deref(), path.map(str::as_bytes), "{id}");
        }
    }
}
