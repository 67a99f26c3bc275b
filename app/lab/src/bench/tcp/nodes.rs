//! Nodes between the hosts: PRP, or plain forwarding.

use std::io;
use std::time::Duration;

use libbpf_rs::Link;
use onbeat_frer::dataplane::DataPlane;
use onbeat_frer::prp::{LIFE_CHECK_MS, Reading};
use onbeat_frer_user::{PollMode, UserPlane};
use onbeat_frer_xdp::Plane;
use onbeat_netdev::Handle;
use onbeat_node::config::Backend;
use onbeat_realtime::interrupt;

use super::super::chain::{Chain, Interface, Stations};
use super::super::cpu::Cpus;
use super::super::frer_chain::{entity, plane_options};
use super::super::programs::Programs;
use super::super::user::bare_forwarders::BareForwarders;
use super::super::user::{ChainNodes, NodePlacement};
use crate::{Error, Result};

/// Maximum time of an entity's silence after a start.
const SILENCE: Duration = Duration::from_secs(5);

type AnyPlane = Box<dyn DataPlane<onbeat_frer_user::Error> + Send>;

/// The nodes of a chain.
pub(super) enum Nodes {
    Prp { chain: Chain, planes: [AnyPlane; 2] },
    Redirects { chain: Chain, _attached: Vec<(Programs, [Link; 3])> },
    Forwarders(BareForwarders),
}

impl Nodes {
    pub(super) fn with_prp(
        stations: &Stations,
        chain: Chain,
        backend: Backend,
        cpus: Cpus,
    ) -> Result<Self> {
        let [a_ports, b_ports] = chain.ports(2);
        let a_host = (&stations.talker, &chain.talker);
        let b_host = (&stations.listener, &chain.listener);
        let planes = [
            start((&stations.a, &a_ports), a_host, backend, cpus)?,
            start((&stations.b, &b_ports), b_host, backend, cpus)?,
        ];
        // After a start, an entity is silent.
        let is_silent = |plane: &AnyPlane| {
            plane.supervise().is_ok_and(|ms| ms.is_some_and(|ms| ms < LIFE_CHECK_MS))
        };
        if !interrupt::wait_until(SILENCE, || !planes.iter().any(is_silent))? {
            let what = "the end of the silence after a start".to_owned();
            return Err(Error::Timeout { what, seconds: SILENCE.as_secs_f64() });
        }
        Ok(Self::Prp { chain, planes })
    }

    /// Each node sends frames of its host by both paths, and delivers those of path 1.
    pub(super) fn plain(
        stations: &Stations,
        chain: Chain,
        backend: Backend,
        cpus: Cpus,
    ) -> Result<Self> {
        if backend.is_user_space() {
            let placement = NodePlacement { cpus, real_time: false };
            return BareForwarders::start(stations, chain, 2, backend, placement)
                .map(Self::Forwarders);
        }
        let attached =
            [(&stations.a, &chain.a, &chain.a_paths), (&stations.b, &chain.b, &chain.b_paths)]
                .map(|(handle, host, paths)| redirect(handle, host, paths));
        let _attached = attached.into_iter().collect::<Result<_>>()?;
        Ok(Self::Redirects { chain, _attached })
    }

    pub(super) fn chain(&mut self) -> &Chain {
        match self {
            Self::Prp { chain, .. } | Self::Redirects { chain, .. } => chain,
            Self::Forwarders(forwarders) => forwarders.chain(),
        }
    }

    /// Frames that node A numbered, and copies that B discarded.
    pub(super) fn counted(&self) -> Result<[u64; 2]> {
        let Self::Prp { planes, .. } = self else { return Ok([0; 2]) };
        let read = |plane: &AnyPlane| -> Result<Reading> {
            let reading = plane.read_lre().map_err(failed("read the PRP node"))?;
            reading.ok_or_else(|| Error::Invalid("a node of the bench has no entity".into()))
        };
        let (a, b) = (read(&planes[0])?, read(&planes[1])?);
        Ok([a.host.numbered, b.lans.iter().map(|lan| lan.duplicates).sum()])
    }
}

/// Starts a node with these ports, whose host has this interface.
fn start(
    (handle, ports): (&Handle, &[&Interface]),
    (station, host): (&Handle, &Interface),
    backend: Backend,
    cpus: Cpus,
) -> Result<AnyPlane> {
    let mac = |handle: &Handle, interface: &Interface| {
        handle.link(&interface.name).map(|link| link.mac.unwrap_or_default())
    };
    let parameters = entity(mac(station, host)?, [mac(handle, ports[1])?, mac(handle, ports[2])?]);
    let names: Vec<String> = ports.iter().map(|interface| interface.name.clone()).collect();
    let start = move || {
        let mut plane: AnyPlane = match backend {
            Backend::Xdp => Box::new(Plane::open(&plane_options(1))?),
            _ => {
                let options = onbeat_frer_user::Options {
                    max_streams: 1,
                    poll: PollMode::Sleep,
                    ports: ports.len() as u32,
                };
                let placement = NodePlacement { cpus, real_time: false };
                let prepare = move || placement.apply().map_err(io::Error::other);
                Box::new(UserPlane::start(options, prepare)?)
            }
        };
        for interface in ports {
            match backend {
                Backend::Packet => plane.attach_packet(&interface.port())?,
                _ => plane.attach(&interface.port(), false)?,
            }
        }
        plane.set_lre(&names, Some(&parameters))?;
        Ok(plane)
    };
    // Interfaces are identified by their index in the thread's namespace.
    handle.namespace().run(start)?.map_err(failed("start a PRP node"))
}

/// Attaches plain redirects to the ports of a node.
fn redirect(
    handle: &Handle,
    host: &Interface,
    paths: &[Interface; 2],
) -> Result<(Programs, [Link; 3])> {
    let programs = Programs::load()?;
    for (key, path) in (0..).zip(paths) {
        programs.set_target("to_paths", key, handle, path)?;
    }
    programs.set_target("to_listener", 0, handle, host)?;
    let links = [
        programs.attach("two_paths", handle, host)?,
        programs.attach("deliver", handle, &paths[0])?,
        programs.attach("discard", handle, &paths[1])?,
    ];
    Ok((programs, links))
}

fn failed(operation: &str) -> impl FnOnce(onbeat_frer_user::Error) -> Error {
    move |error| Error::io(operation, io::Error::other(error))
}
