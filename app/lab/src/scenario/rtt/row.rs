//! The compared rows: data planes of both nodes.

use onbeat_node::config::Backend;

use super::Load;
use super::cpu_layout::CpuLayout;
use crate::Topology;
use crate::scenario::two_paths::TwoPaths;

/// Reset timeout: a data plane that stressors deprive of the CPU for longer accepts second copies of
/// queued frames as first ones, as specified.
const RESET_TIMEOUT_MS: u64 = 60_000;

/// Data plane of a row's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plane {
    /// Programs that only redirect: the reference.
    Redirect,
    /// FRER.
    Frer {
        /// Back end.
        backend: Backend,
        /// The forwarding thread has real-time priority.
        realtime: bool,
        /// NAPI mode of the nodes' interfaces.
        napi: Napi,
    },
}

/// NAPI mode of interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Napi {
    /// In softirq.
    Softirq,
    /// In kernel threads on the CPU of their node, at real-time priority or not.
    Threaded { realtime: bool },
}

/// A row of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// Name in figures.
    pub(super) name: &'static str,
    /// Suffix of the names of hosts and nodes.
    key: &'static str,
    /// Description, one line.
    pub(super) summary: &'static str,
    pub(super) plane: Plane,
}

/// Policy of a forwarding thread of a real-time row: below NAPI threads, as docs/reference/host-settings.md says.
const FORWARDER: &str = "fifo 49";

const fn frer(backend: Backend, realtime: bool) -> Plane {
    Plane::Frer { backend, realtime, napi: Napi::Softirq }
}

const fn threaded(realtime: bool) -> Plane {
    Plane::Frer { backend: Backend::Xdp, realtime: false, napi: Napi::Threaded { realtime } }
}

/// All rows, the reference first.
pub(super) const ROWS: [Row; 8] = [
    Row {
        name: REDIRECT,
        key: "redirect",
        summary: "the same chain, with programs that only redirect",
        plane: Plane::Redirect,
    },
    Row {
        name: "XDP",
        key: "xdp",
        summary: "FRER in the kernel, in softirq",
        plane: frer(Backend::Xdp, false),
    },
    Row {
        name: "packet",
        key: "packet",
        summary: "FRER in user space over packet sockets, at normal priority",
        plane: frer(Backend::Packet, false),
    },
    Row {
        name: "packet, real-time",
        key: "packet-rt",
        summary: "the same, its thread at SCHED_FIFO 49, its memory locked",
        plane: frer(Backend::Packet, true),
    },
    Row {
        name: "xsk",
        key: "xsk",
        summary: "FRER in user space over AF_XDP, at normal priority",
        plane: frer(Backend::Xsk, false),
    },
    Row {
        name: "xsk, real-time",
        key: "xsk-rt",
        summary: "the same, its thread at SCHED_FIFO 49, its memory locked",
        plane: frer(Backend::Xsk, true),
    },
    Row {
        name: "XDP, threaded NAPI",
        key: "napi",
        summary: "FRER in the kernel, the nodes' NAPI in threads at normal priority",
        plane: threaded(false),
    },
    Row {
        name: "XDP, threaded NAPI, real-time",
        key: "napi-rt",
        summary: "the same, its NAPI threads at SCHED_FIFO 50",
        plane: threaded(true),
    },
];

/// The reference.
pub(super) const REDIRECT: &str = "redirect, no FRER";

impl Row {
    /// Whether it is measured under a load: threaded NAPI makes a difference only if other tasks
    /// compete with its threads.
    pub(super) fn is_for(&self, load: Load) -> bool {
        let threaded = matches!(self.plane, Plane::Frer { napi: Napi::Threaded { .. }, .. });
        load != Load::Idle || !threaded
    }

    /// Whether it uses a back end, if one is selected.
    pub(super) fn runs_on(&self, only: Option<Backend>) -> bool {
        match self.plane {
            Plane::Redirect => true,
            Plane::Frer { backend, .. } => only.is_none_or(|only| only == backend),
        }
    }

    /// The name of a host or node of [`TwoPaths`] in this row.
    pub(super) fn station(&self, name: &str) -> String {
        format!("{name}-{}", self.key)
    }

    /// The two paths, with names of this row.
    pub(super) fn topology(&self, place: &CpuLayout) -> Topology {
        let node = [place.a, place.b].map(|cpu| self.node_table(cpu));
        let mut network = TwoPaths { node, ..TwoPaths::vector(RESET_TIMEOUT_MS) }.topology();
        network.nodes.iter_mut().for_each(|node| node.name = self.station(&node.name));
        network.hosts.iter_mut().for_each(|host| host.name = self.station(&host.name));
        for link in &mut network.links {
            link.name = self.station(&link.name);
            for end in &mut link.ends {
                end.station = self.station(&end.station);
            }
        }
        network
    }

    /// The `node` table of a node on a CPU.
    fn node_table(&self, cpu: u16) -> String {
        let Plane::Frer { backend, realtime, .. } = self.plane else { return String::new() };
        let mut table = format!("[node]\nbackend = \"{backend}\"\nmax-streams = 16\n");
        if backend.is_user_space() {
            table += &format!("[node.realtime]\ncpus = \"{cpu}\"\n");
        }
        if realtime {
            table += &format!("scheduling = \"{FORWARDER}\"\nlock-memory = true\n");
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_node::config::Config;

    #[test]
    fn rows_have_distinct_names_and_keys() {
        for (place, row) in ROWS.iter().enumerate() {
            let before = &ROWS[..place];
            assert!(before.iter().all(|other| other.name != row.name && other.key != row.key));
        }
        assert_eq!(ROWS[0].name, REDIRECT);
    }

    #[test]
    fn node_configurations_match_their_row() {
        let place = CpuLayout { hosts: "0".parse().unwrap(), a: 2, b: 1 };
        for row in ROWS {
            let Plane::Frer { backend, realtime, .. } = row.plane else { continue };
            let network = row.topology(&place).checked().unwrap();
            for (node, cpu) in network.nodes.iter().zip(["2", "1"]) {
                let text = node.config_text.as_deref().unwrap();
                let config = Config::parse(text, "x.toml").unwrap().node;
                assert_eq!(config.backend, backend);
                let cpus = config.realtime.cpus.map(|cpus| cpus.to_string());
                assert_eq!(cpus.as_deref(), backend.is_user_space().then_some(cpu), "{}", row.name);
                assert_eq!(config.realtime.scheduling.is_some(), realtime);
            }
        }
    }

    #[test]
    fn each_load_has_its_rows() {
        let of = |load| ROWS.iter().filter(|row| row.is_for(load)).count();
        assert_eq!((of(Load::Idle), of(Load::Stress), of(Load::Background)), (6, 8, 8));
        let on = |backend| ROWS.iter().filter(|row| row.runs_on(Some(backend))).count();
        assert_eq!([Backend::Xdp, Backend::Packet, Backend::Xsk].map(on), [4, 3, 3]);
    }
}
