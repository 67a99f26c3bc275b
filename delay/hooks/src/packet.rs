//! Reports of completed packets.

use onbeat_bpf::PlainData;

use crate::Detail;
use crate::abi::{hooks_after, hooks_context, hooks_fate, hooks_packet, hooks_point};

/// Stages, in order: each ends where the next one starts, so that they add up to the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// In the NIC and its rings, from its stamp until its driver passes the packet to the stack.
    Device,
    /// In a CPU's queue, until the start of the softirq that processes it.
    Softirq,
    /// In that softirq or thread, behind other packets.
    Behind,
    /// In the stack, until its route is known or it is in its socket.
    Protocol,
    /// In the socket, until a process reads it.
    Socket,
    /// In the process, until its answer is passed to the device.
    Process,
    /// In the stack, until it is passed to the sending device. Without a route, as in a bridge, from the start of
    /// the stack on.
    Forward,
    /// In the queueing discipline.
    Qdisc,
    /// In the driver.
    Driver,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 9] = [
        Self::Device,
        Self::Softirq,
        Self::Behind,
        Self::Protocol,
        Self::Socket,
        Self::Process,
        Self::Forward,
        Self::Qdisc,
        Self::Driver,
    ];

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "in the NIC",
            Self::Softirq => "until the softirq",
            Self::Behind => "behind others in it",
            Self::Protocol => "protocol",
            Self::Socket => "socket, until read",
            Self::Process => "process",
            Self::Forward => "forwarding",
            Self::Qdisc => "qdisc",
            Self::Driver => "driver",
        }
    }
}

/// The outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It was forwarded.
    Forwarded,
    /// A process answered it on the socket that it was read from; its end is the answer's.
    Answered,
    /// The kernel answered it at once, as it does echo requests.
    AnsweredByKernel,
    /// A process read it. An answer is a packet of its own.
    Delivered,
    /// It was dropped, for a reason with a number of the kernel (`enum skb_drop_reason`).
    Dropped(u32),
}

/// The context of the stack's work on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// A softirq of an idle CPU.
    Idle,
    /// A softirq in the time of the running task.
    Process,
    /// The kernel's ksoftirqd thread.
    Ksoftirqd,
    /// A NAPI thread.
    NapiThread,
}

impl Context {
    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle CPU",
            Self::Process => "in a task's time",
            Self::Ksoftirqd => "ksoftirqd",
            Self::NapiThread => "NAPI thread",
        }
    }
}

/// A completed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The first point, in nanoseconds of `CLOCK_MONOTONIC`; the NIC's stamp after [`Packet::begin_in_device`].
    pub begin_ns: u64,
    /// The NIC's stamp, in nanoseconds of its own clock; `None` if there is none, or it was not requested.
    pub device_ns: Option<u64>,
    /// The total delay from the first to the last point, in nanoseconds; at most 4.29 s.
    pub total_ns: u32,
    /// The delay of each stage, as in [`Stage::ALL`]; `None` if the packet did not pass it, and for all if only the
    /// total was requested.
    pub stages_ns: [Option<u32>; Stage::ALL.len()],
    /// The outcome.
    pub fate: Fate,
    /// The context of the stack's work.
    pub context: Context,
    /// The task that ran there.
    pub task: u32,
    /// The name of that task, up to 15 octets and a zero.
    pub comm: [u8; 16],
    /// The number of earlier packets pending on the same CPU; `None` if only the total was requested.
    pub depth: Option<u32>,
    /// Octets, without the Ethernet header.
    pub length: u32,
    /// The CPU that received it.
    pub cpu: u16,
    /// The CPU of its last point.
    pub last_cpu: u16,
}

impl Packet {
    /// The name of the task on the receiving CPU.
    #[must_use]
    pub fn task_name(&self) -> String {
        let end = self.comm.iter().position(|octet| *octet == 0).unwrap_or(self.comm.len());
        String::from_utf8_lossy(&self.comm[..end]).into_owned()
    }

    /// Starts the packet at the NIC's stamp, in nanoseconds of `CLOCK_MONOTONIC`, unless the stamp is later than
    /// the first point by more than the error of the clock conversion; then it stays unchanged, and `false` is
    /// returned.
    pub fn begin_in_device(&mut self, stamped_ns: u64, error_ns: u64) -> bool {
        if stamped_ns > self.begin_ns + error_ns {
            return false;
        }
        let stage_ns = u32::try_from(self.begin_ns.saturating_sub(stamped_ns)).unwrap_or(u32::MAX);
        self.begin_ns -= u64::from(stage_ns);
        self.total_ns = self.total_ns.saturating_add(stage_ns);
        if self.depth.is_some() {
            self.stages_ns[Stage::Device as usize] = Some(stage_ns);
        }
        true
    }

    /// Decodes several reports.
    pub(crate) fn several(octets: &[u8], detail: Detail) -> impl Iterator<Item = Self> + '_ {
        let record = octets.chunks(size_of::<hooks_packet>()).filter_map(hooks_packet::from_octets);
        record.filter_map(move |record| Self::of(&record, detail))
    }

    /// `None` if it is of another version.
    pub(crate) fn of(record: &hooks_packet, detail: Detail) -> Option<Self> {
        let read = record.after_ns[hooks_point::HOOKS_READ.0 as usize] != ABSENT;
        let mut stages_ns = [None; Stage::ALL.len()];
        let mut last_ns = 0;
        for (point, after_ns) in record.after_ns.iter().enumerate() {
            if *after_ns == ABSENT {
                continue;
            }
            // The clock that CPUs share does not go back, but their readings may overlap.
            let stage_ns = after_ns.saturating_sub(last_ns);
            last_ns = last_ns.max(*after_ns);
            if let Some(stage) = ending_at(point as u32, read) {
                stages_ns[stage as usize] = Some(stage_ns);
            }
        }
        if detail == Detail::Whole {
            // Not all points were recorded.
            stages_ns = [None; Stage::ALL.len()];
        }
        if record.after_ns[hooks_point::HOOKS_ARRIVED.0 as usize] == ABSENT {
            // It starts in the stack, so that there are no stages before it.
            stages_ns[Stage::Behind as usize] = None;
        }
        let fate = match hooks_fate(record.fate.into()) {
            hooks_fate::HOOKS_FORWARDED => Fate::Forwarded,
            hooks_fate::HOOKS_ANSWERED => Fate::Answered,
            hooks_fate::HOOKS_ANSWERED_BY_KERNEL => Fate::AnsweredByKernel,
            hooks_fate::HOOKS_DELIVERED => Fate::Delivered,
            hooks_fate::HOOKS_DROPPED => Fate::Dropped(record.reason),
            _ => return None,
        };
        let context = match hooks_context(record.context.into()) {
            hooks_context::HOOKS_IDLE => Context::Idle,
            hooks_context::HOOKS_KSOFTIRQD => Context::Ksoftirqd,
            hooks_context::HOOKS_NAPI_THREAD => Context::NapiThread,
            _ => Context::Process,
        };
        Some(Self {
            begin_ns: record.begin_ns,
            device_ns: (record.device_ns != 0).then_some(record.device_ns),
            total_ns: last_ns,
            stages_ns,
            fate,
            context,
            task: record.task,
            comm: record.comm.map(|octet| octet as u8),
            depth: (record.depth != ABSENT).then_some(record.depth),
            length: record.length,
            cpu: record.cpu,
            last_cpu: record.last_cpu,
        })
    }
}

/// Marks a point that the packet did not pass.
const ABSENT: u32 = hooks_after::HOOKS_ABSENT.0;

/// The stage that ends at a point.
fn ending_at(point: u32, read: bool) -> Option<Stage> {
    Some(match hooks_point(point) {
        hooks_point::HOOKS_SOFTIRQ => Stage::Softirq,
        hooks_point::HOOKS_RECEIVED => Stage::Behind,
        hooks_point::HOOKS_DECIDED => Stage::Protocol,
        hooks_point::HOOKS_READ => Stage::Socket,
        hooks_point::HOOKS_QUEUED if read => Stage::Process,
        hooks_point::HOOKS_QUEUED => Stage::Forward,
        hooks_point::HOOKS_STARTED => Stage::Qdisc,
        hooks_point::HOOKS_SENT => Stage::Driver,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(after_ns: [u32; 8], fate: u8) -> hooks_packet {
        let comm = b"ksoftirqd/1\0\0\0\0\0".map(|octet| octet as i8);
        let (begin_ns, task, depth, length, cpu, context) = (1000, 7, 3, 178, 1, 2);
        let record =
            hooks_packet { begin_ns, after_ns, task, comm, depth, length, ..Default::default() };
        hooks_packet { cpu, fate, context, ..record }
    }

    #[test]
    fn stages_add_up_to_the_whole() {
        let record = record([0, 5, 20, 50, ABSENT, 90, 91, 300], 0);
        let packet = Packet::of(&record, Detail::Stages).unwrap();
        let sum: u32 = packet.stages_ns.iter().flatten().sum();
        assert_eq!((packet.total_ns, sum), (300, 300));
        assert_eq!(packet.stages_ns[Stage::Behind as usize], Some(15));
        assert_eq!(packet.stages_ns[Stage::Forward as usize], Some(40));
        assert_eq!(packet.stages_ns[Stage::Process as usize], None);
        assert_eq!((packet.fate, packet.context), (Fate::Forwarded, Context::Ksoftirqd));
        assert_eq!(packet.task_name(), "ksoftirqd/1");
        assert_eq!((packet.depth, packet.length, packet.cpu), (Some(3), 178, 1));
    }

    #[test]
    fn an_answered_packet_has_the_process_stage() {
        let record = record([ABSENT, ABSENT, 0, 30, 700, 900, 910, 1000], 1);
        let packet = Packet::of(&record, Detail::Stages).unwrap();
        assert_eq!(packet.stages_ns[Stage::Softirq as usize], None);
        assert_eq!(packet.stages_ns[Stage::Behind as usize], None);
        assert_eq!(packet.stages_ns[Stage::Socket as usize], Some(670));
        assert_eq!(packet.stages_ns[Stage::Process as usize], Some(200));
        assert_eq!(packet.total_ns, 1000);
    }

    #[test]
    fn a_total_delay_has_no_stages() {
        let record = hooks_packet {
            depth: ABSENT,
            ..record([0, ABSENT, 50, ABSENT, ABSENT, 90, ABSENT, ABSENT], 0)
        };
        let packet = Packet::of(&record, Detail::Whole).unwrap();
        assert_eq!((packet.total_ns, packet.depth), (90, None));
        assert_eq!(packet.stages_ns, [None; Stage::ALL.len()]);
    }

    #[test]
    fn a_packet_starts_at_the_stamp_of_the_nic() {
        let record = record([0, 5, 20, 50, ABSENT, 90, 91, 300], 0);
        let seen = Packet::of(&record, Detail::Stages).unwrap();
        let mut packet = seen;
        assert!(packet.begin_in_device(400, 10));
        assert_eq!((packet.begin_ns, packet.total_ns), (400, 900));
        assert_eq!(packet.stages_ns[Stage::Device as usize], Some(600));
        assert_eq!(packet.stages_ns.iter().flatten().sum::<u32>(), packet.total_ns);
        let mut packet = seen;
        assert!(packet.begin_in_device(1010, 10), "within the error");
        assert_eq!(packet.stages_ns[Stage::Device as usize], Some(0));
        let mut packet = seen;
        assert!(!packet.begin_in_device(1011, 10));
        assert_eq!(packet, seen);
    }

    #[test]
    fn overlapping_clocks_of_cpus_yield_no_negative_delay() {
        let record = record([0, 5, 3, 50, ABSENT, 40, 60, 61], 0);
        let packet = Packet::of(&record, Detail::Stages).unwrap();
        assert_eq!(packet.stages_ns.iter().flatten().sum::<u32>(), packet.total_ns);
        assert_eq!(packet.stages_ns[Stage::Forward as usize], Some(0));
    }

    #[test]
    fn other_versions_are_not_decoded() {
        assert_eq!(Packet::of(&record([0; 8], 9), Detail::Stages), None);
        let two =
            [record([0; 8], 0), record([0; 8], 4)].map(|record| record.octets().to_vec()).concat();
        assert_eq!(Packet::several(&two, Detail::Stages).count(), 2);
        assert_eq!(Packet::several(&two[1..], Detail::Stages).count(), 1, "the second is cut off");
    }
}
