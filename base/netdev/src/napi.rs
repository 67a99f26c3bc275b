//! NAPI instances of a device: threaded or in softirq, and their timers.
//!
//! All this is read and written in /sys/class/net, and **sysfs shows the devices of the namespace in which it
//! was mounted**, not those of the reading thread. For another namespace, call these functions within
//! [`Namespace::run_with_sysfs`](crate::Namespace::run_with_sysfs).

use std::{fs, io};

use netlink_packet_core::DefaultNla;
use nix::errno::Errno;

use crate::{Error, Handle, Result, check_name, genl::Family};

const NETDEV_CMD_QUEUE_GET: u8 = 10;
const NETDEV_A_QUEUE_ID: u16 = 1;
const NETDEV_A_QUEUE_IFINDEX: u16 = 2;
const NETDEV_A_QUEUE_TYPE: u16 = 3;
const NETDEV_A_QUEUE_NAPI_ID: u16 = 4;
const NETDEV_QUEUE_TYPE_RX: u32 = 0;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_NAPI_IFINDEX: u16 = 1;
const NETDEV_A_NAPI_ID: u16 = 2;
const NETDEV_A_NAPI_IRQ: u16 = 3;
const NETDEV_A_NAPI_PID: u16 = 4;
const NETDEV_A_NAPI_THREADED: u16 = 8;

/// A NAPI instance of a device: one or several queues that are polled together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instance {
    /// Its id, unique among all devices.
    pub id: u32,
    /// The interrupt that starts it, if the driver reports it.
    pub irq: Option<u32>,
    /// The kernel thread that it runs in, if threaded: a process id in the host's first pid namespace.
    pub pid: Option<u32>,
    /// Its own mode, if the kernel has one per instance (Linux 6.17): 0 in softirq, 1 in a thread, 2 in a thread that
    /// polls all the time.
    pub threaded: Option<u32>,
}

/// Returns the device's NAPI instances; `None`: the kernel (before 6.8) does not report them.
///
/// # Errors
/// [`Error::NotFound`]; the kernel's reply is malformed.
pub fn instances(handle: &Handle, interface: &str) -> Result<Option<Vec<Instance>>> {
    let Some(instances) = Instances::open(handle)? else { return Ok(None) };
    instances.of(handle.index(interface)?, interface)
}

/// Access to the NAPI instances of a network namespace, for repeated use.
#[derive(Debug)]
pub struct Instances(Family);

impl Instances {
    /// Opens the access; `None`: the kernel does not have it.
    ///
    /// # Errors
    /// The kernel refuses a socket.
    pub fn open(handle: &Handle) -> Result<Option<Self>> {
        Ok(handle.namespace().run(|| Family::open("netdev"))??.map(Self))
    }

    /// Returns the instances of the device with this index; `None`: the kernel (before 6.8) does not report them.
    ///
    /// # Errors
    /// The kernel's reply is malformed. `interface` is the name in the message.
    pub fn of(&self, index: u32, interface: &str) -> Result<Option<Vec<Instance>>> {
        let query = DefaultNla::new(NETDEV_A_NAPI_IFINDEX, index.to_ne_bytes().to_vec());
        match self.0.dump(NETDEV_CMD_NAPI_GET, &[query]) {
            Ok(entries) => Ok(Some(entries.iter().map(|entry| Instance::read(entry)).collect())),
            // The family is older than the command.
            Err(failure) if failure.errno() == Some(Errno::EOPNOTSUPP) => Ok(None),
            Err(failure) => Err(failure.of("read the NAPI instances", interface)),
        }
    }

    /// Sets [`Instance::threaded`] of one instance.
    ///
    /// # Errors
    /// The instance does not exist, or the kernel has no mode per instance. `interface` is the name in the message.
    pub fn set_threaded(&self, id: u32, mode: u32, interface: &str) -> Result<()> {
        let number = |kind, value: u32| DefaultNla::new(kind, value.to_ne_bytes().to_vec());
        let values = [number(NETDEV_A_NAPI_ID, id), number(NETDEV_A_NAPI_THREADED, mode)];
        match self.0.get(NETDEV_CMD_NAPI_SET, &values) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.of(format!("set NAPI instance {id}"), interface)),
        }
    }
}

/// Returns the number of the receive queue that a NAPI instance polls: as the driver reports it, or else the position of
/// the instance among those of the device, by their ids. `None`: the instance or the kernel's report is absent.
///
/// # Errors
/// As [`instances`].
pub fn receive_queue(handle: &Handle, interface: &str, id: u32) -> Result<Option<u32>> {
    let Some(access) = Instances::open(handle)? else { return Ok(None) };
    let index = handle.index(interface)?;
    let Some(mut instances) = access.of(index, interface)? else { return Ok(None) };
    let query = DefaultNla::new(NETDEV_A_QUEUE_IFINDEX, index.to_ne_bytes().to_vec());
    let queues = access
        .0
        .dump(NETDEV_CMD_QUEUE_GET, &[query])
        .map_err(|failure| failure.of("read the queues", interface))?;
    let is = |queue: &[(u16, Vec<u8>)], kind, wanted| {
        numbers(queue).any(|found| found == (kind, wanted))
    };
    let polled = queues.iter().find(|queue| {
        is(queue, NETDEV_A_QUEUE_TYPE, NETDEV_QUEUE_TYPE_RX)
            && is(queue, NETDEV_A_QUEUE_NAPI_ID, id)
    });
    let number = polled.and_then(|queue| {
        numbers(queue).find(|(kind, _)| *kind == NETDEV_A_QUEUE_ID).map(|(_, number)| number)
    });
    if number.is_some() {
        return Ok(number);
    }
    instances.sort_by_key(|instance| instance.id);
    Ok(instances.iter().position(|instance| instance.id == id).map(|at| at as u32))
}

/// The attributes that are numbers.
fn numbers(attributes: &[(u16, Vec<u8>)]) -> impl Iterator<Item = (u16, u32)> + '_ {
    let number = |value: &[u8]| value.first_chunk().copied().map(u32::from_ne_bytes);
    attributes.iter().filter_map(move |(kind, value)| Some((*kind, number(value)?)))
}

impl Instance {
    fn read(attributes: &[(u16, Vec<u8>)]) -> Self {
        let mut instance = Instance::default();
        for (kind, number) in numbers(attributes) {
            match kind {
                NETDEV_A_NAPI_ID => instance.id = number,
                NETDEV_A_NAPI_IRQ => instance.irq = Some(number),
                NETDEV_A_NAPI_PID => instance.pid = Some(number),
                NETDEV_A_NAPI_THREADED => instance.threaded = Some(number),
                _ => {}
            }
        }
        instance
    }
}

/// Returns whether the device's NAPI instances run in kernel threads, with configurable priority and CPUs,
/// instead of in softirq.
///
/// # Errors
/// [`Error::NotFound`]; sysfs cannot be read.
pub fn threaded(interface: &str) -> Result<bool> {
    // 2 is threaded with busy polling (Linux 6.18 and later).
    read(interface, "threaded").map(|value| value != 0)
}

/// Makes the device's NAPI instances run in kernel threads, or in softirq.
///
/// # Errors
/// [`Error::Unsupported`]: the device has no NAPI instance at present. A veth has one while its generic
/// receive offload is on or it has an XDP program.
pub fn set_threaded(interface: &str, on: bool) -> Result<()> {
    write(interface, "threaded", u64::from(on))
}

/// Returns the time for which NAPI delays frames for merging after a poll below its budget, in nanoseconds.
///
/// # Errors
/// As [`threaded`].
pub fn gro_flush_timeout_ns(interface: &str) -> Result<u64> {
    read(interface, "gro_flush_timeout")
}

/// Sets [`gro_flush_timeout_ns`]. With [`set_defer_hard_irqs`] it becomes the polling interval.
///
/// # Errors
/// As [`threaded`].
pub fn set_gro_flush_timeout_ns(interface: &str, timeout_ns: u64) -> Result<()> {
    write(interface, "gro_flush_timeout", timeout_ns)
}

/// Returns the number of empty polls after which the device's interrupt is enabled again.
///
/// # Errors
/// As [`threaded`].
pub fn defer_hard_irqs(interface: &str) -> Result<u64> {
    read(interface, "napi_defer_hard_irqs")
}

/// Sets [`defer_hard_irqs`].
///
/// # Errors
/// As [`threaded`].
pub fn set_defer_hard_irqs(interface: &str, polls: u64) -> Result<()> {
    write(interface, "napi_defer_hard_irqs", polls)
}

const CLASS: &str = "/sys/class/net";

fn read(interface: &str, attribute: &str) -> Result<u64> {
    check_name(interface)?;
    let path = format!("{CLASS}/{interface}/{attribute}");
    let text = fs::read_to_string(&path)
        .map_err(|error| explain(error, interface, attribute, format!("read {path}")))?;
    text.trim().parse().map_err(|_| Error::Malformed {
        operation: format!("read {path}"),
        reason: format!("{:?} is not a number", text.trim()),
    })
}

fn write(interface: &str, attribute: &str, value: u64) -> Result<()> {
    check_name(interface)?;
    let path = format!("{CLASS}/{interface}/{attribute}");
    fs::write(&path, value.to_string())
        .map_err(|error| explain(error, interface, attribute, format!("write {value} to {path}")))
}

fn explain(error: io::Error, interface: &str, attribute: &str, operation: String) -> Error {
    let directory = format!("{CLASS}/{interface}");
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) if fs::metadata(&directory).is_err() => {
            Error::NotFound { name: interface.to_owned(), available: names() }
        }
        Some(Errno::ENOENT) => Error::Unsupported {
            what: format!("{attribute} of interface {interface:?}"),
            remedy: "requires a newer kernel (threaded NAPI: 5.12)".into(),
        },
        Some(Errno::EOPNOTSUPP) => Error::Unsupported {
            what: format!("{attribute} of interface {interface:?}"),
            remedy: "its driver has no NAPI instance at present; for a veth, turn on rx-gro and set it up"
                .into(),
        },
        _ => Error::io(operation, error),
    }
}

fn names() -> Vec<String> {
    let Ok(entries) = fs::read_dir(CLASS) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
