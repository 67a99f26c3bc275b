//! Assignment of CPUs.

use onbeat_realtime::{CpuSet, Profile, Realtime, Scheduling};

use crate::{Result, cpus};

/// Priority of the sending thread: it stands for the interrupt of an interface, which preempts
/// everything.
const PROBER: Scheduling = Scheduling::Fifo(80);

/// Assignment of CPUs. Softirq work for a frame runs on the CPU that sent it. Probes are sent from the
/// CPU of node a, so that this work is on the nodes' CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CpuLayout {
    /// Background traffic, receivers, and this program.
    pub(super) hosts: CpuSet,
    /// Node a.
    pub(super) a: u16,
    /// Node b.
    pub(super) b: u16,
}

impl CpuLayout {
    /// Chooses from the CPUs that may be used.
    pub(super) fn choose() -> Result<Self> {
        Ok(Self::among(&cpus::usable()?))
    }

    /// One CPU for each node and the rest for the hosts, as far as available. `usable` is ascending and
    /// not empty: the first CPU has most of the other work.
    fn among(usable: &[u16]) -> Self {
        let set = |cpus: &[u16]| cpus.iter().copied().collect();
        match *usable {
            [ref hosts @ .., b, a] if !hosts.is_empty() => Self { hosts: set(hosts), a, b },
            [host, node] => Self { hosts: set(&[host]), a: node, b: node },
            _ => {
                let only = usable.first().copied().unwrap_or(0);
                Self { hosts: set(&[only]), a: only, b: only }
            }
        }
    }

    /// The CPUs of both nodes.
    pub(super) fn nodes(&self) -> CpuSet {
        [self.a, self.b].into_iter().collect()
    }

    /// Moves this thread, and threads that it starts, to the CPUs of the hosts.
    pub(super) fn with_hosts(&self) -> Result<Realtime> {
        Ok(Profile::default().on_cpus(self.hosts.clone()).enter()?)
    }

    /// Makes this thread, and threads that it starts, send like an interrupt of node a's interface.
    pub(super) fn as_interrupt(&self) -> Result<Realtime> {
        let cpu = [self.a].into_iter().collect();
        Ok(Profile::default().on_cpus(cpu).scheduled(PROBER).enter()?)
    }

    /// Description of the assignment.
    pub(super) fn note(&self) -> String {
        let nodes = if self.a == self.b {
            format!("Both nodes on CPU {}", self.a)
        } else {
            format!("Node a on CPU {}, node b on CPU {}", self.a, self.b)
        };
        let shared = if self.nodes().contains_all(&self.hosts) {
            " There is no other CPU, so that both share it."
        } else {
            ""
        };
        format!(
            "{nodes}; the hosts, with background traffic and receivers, on CPU {}.{shared} On a \
             veth, softirq work for a frame runs on the CPU that sent it. Probes are sent on the CPU of node a \
             by a thread at {PROBER}, which stands for the interrupt of a NIC.",
            self.hosts
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_hosts_have_separate_cpus_if_available() {
        let among = |usable: &[u16]| {
            let CpuLayout { hosts, a, b } = CpuLayout::among(usable);
            (hosts.to_string(), a, b)
        };
        assert_eq!(among(&[3]), ("3".into(), 3, 3));
        assert_eq!(among(&[0, 1]), ("0".into(), 1, 1));
        assert_eq!(among(&[0, 1, 2]), ("0".into(), 2, 1));
        assert_eq!(among(&[0, 1, 4, 5]), ("0-1".into(), 5, 4));
        assert!(CpuLayout::among(&[3]).note().contains("no other CPU"));
        assert!(!CpuLayout::among(&[0, 1]).note().contains("no other CPU"));
    }
}
