//! Two hosts connected by cables.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use onbeat_irq::names::Stat;
use onbeat_netdev::{Ethtool, Handle, Namespace, VethEnd, napi};
use onbeat_realtime::interrupt;

use crate::{Error, Result};

/// Time within which a veth pair has carrier, and an idle thread sleeps.
const BOUND: Duration = Duration::from_secs(10);

/// The hosts.
#[derive(Debug)]
pub(super) struct Rig {
    pub(super) sender: Handle,
    pub(super) receiver: Handle,
}

/// A cable between the hosts.
#[derive(Debug)]
pub(super) struct Cable {
    pub(super) from: Ipv4Addr,
    pub(super) to: Ipv4Addr,
    /// The NAPI thread that receives from it, if there is one.
    thread: Option<u32>,
}

impl Rig {
    pub(super) fn new() -> Result<Self> {
        let host = || Handle::in_namespace(&Namespace::with_loopback()?);
        Ok(Self { sender: host()?, receiver: host()? })
    }

    /// Adds cable `number`; `threaded`: the receiver's end polls in a thread, with GRO.
    pub(super) fn lay(&self, number: u8, threaded: bool) -> Result<Cable> {
        let (near, far) = (format!("s{number}"), format!("r{number}"));
        let address = |host| Ipv4Addr::new(10, 9, number, host);
        let peer = VethEnd::new(&far).queues(1, 1).namespace(self.receiver.namespace());
        self.sender.create_veth(&VethEnd::new(&near).queues(1, 1), &peer)?;
        for (handle, name, host) in [(&self.sender, &near, 1), (&self.receiver, &far, 2)] {
            // Frames that IPv6 sends on its own would be counted.
            handle.set_ipv6(name, false)?;
            handle.add_address(name, IpAddr::V4(address(host)), 24)?;
            handle.set_up(name)?;
        }
        self.sender.wait_carrier(&near, BOUND)?;
        // A veth polls with GRO only, and does not merge packets that were sent as one.
        let ethtool = Ethtool::in_namespace(self.sender.namespace())?;
        let segments = |name: &str| name.starts_with("tx-") && name.ends_with("-segmentation");
        let features = ethtool.features(&near)?;
        let off: Vec<(&str, bool)> = features
            .iter()
            .filter(|feature| segments(&feature.name) && feature.name != "tx-generic-segmentation")
            .map(|feature| (feature.name.as_str(), false))
            .collect();
        ethtool.set_features(&near, &off)?;
        let ethtool = Ethtool::in_namespace(self.receiver.namespace())?;
        ethtool.set_features(&far, &[("gro", threaded)])?;
        let mut thread = None;
        if threaded {
            let set = || napi::set_threaded(&far, true);
            self.receiver.namespace().run_with_sysfs(set)??;
            let instances = napi::instances(&self.receiver, &far)?.unwrap_or_default();
            thread = instances.iter().find_map(|instance| instance.pid);
            if thread.is_none() {
                return Err(Error::Invalid(
                    "the kernel does not report the thread that polls a device; Linux 6.8 or later \
                        is required"
                        .into(),
                ));
            }
        }
        Ok(Cable { from: address(1), to: address(2), thread })
    }
}

impl Cable {
    /// Pins its thread to a CPU.
    pub(super) fn pin(&self, cpu: usize) -> Result<()> {
        let Some(thread) = self.thread else { return Ok(()) };
        let mut set = CpuSet::new();
        set.set(cpu)
            .and_then(|()| sched_setaffinity(Pid::from_raw(thread as i32), &set))
            .map_err(|errno| Error::io(format!("pin a NAPI thread to CPU {cpu}"), errno))
    }

    /// Run time of its thread, once it sleeps, in nanoseconds; 0 without a thread.
    pub(super) fn ran_ns(&self) -> Result<u64> {
        let Some(thread) = self.thread else { return Ok(0) };
        let rests = || Stat::of_number(thread).is_some_and(|stat| stat.is_asleep());
        if !interrupt::wait_until(BOUND, rests)? {
            return Err(Error::Invalid(format!("NAPI thread {thread} does not become idle")));
        }
        let path = format!("/proc/{thread}/schedstat");
        let text =
            fs::read_to_string(&path).map_err(|error| Error::io(format!("read {path}"), error))?;
        let ran = text.split_whitespace().next().and_then(|first| first.parse().ok());
        ran.ok_or_else(|| Error::Invalid(format!("invalid content of {path}: {text:?}")))
    }
}
