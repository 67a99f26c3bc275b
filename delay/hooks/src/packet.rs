//! What is told of a packet that is gone.

use onbeat_bpf::Plain;

use crate::Detail;
use crate::abi::{hooks_after, hooks_context, hooks_fate, hooks_packet, hooks_point};

/// Stages, in order: each ends where the next begins, so that they add up to the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// In the NIC and its rings, from its stamp until its driver hands the packet over.
    Device,
    /// In a CPU's queue, until the softirq begins that finds it.
    Softirq,
    /// In that softirq or thread, behind other packets.
    Behind,
    /// In the stack, until its route is found or its socket has it.
    Protocol,
    /// In the socket, until a process reads it.
    Socket,
    /// At the process, until its answer is given to the device.
    Process,
    /// In the stack, until it is given to the device that sends it. Without a route, as in a bridge,
    /// from the beginning of the stack on.
    Forward,
    /// In the queueing discipline.
    Qdisc,
    /// At the driver.
    Driver,
}

impl Stage {
    /// All of them, in order.
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

    /// As tables have it.
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

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It left.
    Forwarded,
    /// A process answered it on the socket that it was read from; its end is the answer's.
    Answered,
    /// The kernel answered it at once, as it does echo requests.
    AnsweredByKernel,
    /// A process read it. An answer comes as a packet of its own.
    Delivered,
    /// It was dropped, for a reason that the kernel has a number for (`enum skb_drop_reason`).
    Dropped(u32),
}

/// What the stack's work on a packet was done in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// A softirq of a CPU that had nothing else to do.
    Idle,
    /// A softirq in the time of the task that ran.
    Process,
    /// The kernel's thread for softirqs that last.
    Ksoftirqd,
    /// A thread of NAPI.
    NapiThread,
}

impl Context {
    /// As tables have it.
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

/// A packet that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// When it was first seen, in nanoseconds of `CLOCK_MONOTONIC`; when the NIC stamped it, from
    /// [`Packet::begin_in_device`] on.
    pub begin_ns: u64,
    /// When the NIC stamped it, in nanoseconds of its own clock; `None` where it did not, or was not
    /// asked for.
    pub device_ns: Option<u64>,
    /// What it took from its first to its last point, in nanoseconds; at most 4.29 s.
    pub total_ns: u32,
    /// What of that each stage took, as in [`Stage::ALL`]; `None` where it did not pass there, and for
    /// all where only the whole was asked for.
    pub stages_ns: [Option<u32>; Stage::ALL.len()],
    /// What became of it.
    pub fate: Fate,
    /// What the stack's work on it was done in.
    pub context: Context,
    /// The task that ran there.
    pub task: u32,
    /// That task's name, up to 15 octets and a zero.
    pub comm: [u8; 16],
    /// Packets before it that had come by the same CPU and were still there; `None` where only the
    /// whole was asked for.
    pub depth: Option<u32>,
    /// Octets, without the Ethernet header.
    pub length: u32,
    /// The CPU that received it.
    pub cpu: u16,
    /// The CPU that it was last seen on.
    pub last_cpu: u16,
}

impl Packet {
    /// The name of the task that ran where it was received.
    #[must_use]
    pub fn task_name(&self) -> String {
        let end = self.comm.iter().position(|octet| *octet == 0).unwrap_or(self.comm.len());
        String::from_utf8_lossy(&self.comm[..end]).into_owned()
    }

    /// Begins with it when the NIC stamped it, in nanoseconds of `CLOCK_MONOTONIC`, where that was not
    /// after it was first seen, but for what the clocks' conversion may be off by; else it stays as it
    /// is, and `false` is said.
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

    /// Those that were told together.
    pub(crate) fn several(octets: &[u8], detail: Detail) -> impl Iterator<Item = Self> + '_ {
        let told = octets.chunks(size_of::<hooks_packet>()).filter_map(hooks_packet::from_octets);
        told.filter_map(move |told| Self::of(&told, detail))
    }

    /// `None` where it is of another version.
    pub(crate) fn of(told: &hooks_packet, detail: Detail) -> Option<Self> {
        let read = told.after_ns[hooks_point::HOOKS_READ.0 as usize] != ABSENT;
        let mut stages_ns = [None; Stage::ALL.len()];
        let mut last_ns = 0;
        for (point, after_ns) in told.after_ns.iter().enumerate() {
            if *after_ns == ABSENT {
                continue;
            }
            // The clock that CPUs share does not go back, but where they read it they may overlap.
            let stage_ns = after_ns.saturating_sub(last_ns);
            last_ns = last_ns.max(*after_ns);
            if let Some(stage) = ending_at(point as u32, read) {
                stages_ns[stage as usize] = Some(stage_ns);
            }
        }
        if detail == Detail::Whole {
            // What was noted on the way are not all of them.
            stages_ns = [None; Stage::ALL.len()];
        }
        if told.after_ns[hooks_point::HOOKS_ARRIVED.0 as usize] == ABSENT {
            // It begins with the stack, behind which there is no stage.
            stages_ns[Stage::Behind as usize] = None;
        }
        let fate = match hooks_fate(told.fate.into()) {
            hooks_fate::HOOKS_FORWARDED => Fate::Forwarded,
            hooks_fate::HOOKS_ANSWERED => Fate::Answered,
            hooks_fate::HOOKS_ANSWERED_BY_KERNEL => Fate::AnsweredByKernel,
            hooks_fate::HOOKS_DELIVERED => Fate::Delivered,
            hooks_fate::HOOKS_DROPPED => Fate::Dropped(told.reason),
            _ => return None,
        };
        let context = match hooks_context(told.context.into()) {
            hooks_context::HOOKS_IDLE => Context::Idle,
            hooks_context::HOOKS_KSOFTIRQD => Context::Ksoftirqd,
            hooks_context::HOOKS_NAPI_THREAD => Context::NapiThread,
            _ => Context::Process,
        };
        Some(Self {
            begin_ns: told.begin_ns,
            device_ns: (told.device_ns != 0).then_some(told.device_ns),
            total_ns: last_ns,
            stages_ns,
            fate,
            context,
            task: told.task,
            comm: told.comm.map(|octet| octet as u8),
            depth: (told.depth != ABSENT).then_some(told.depth),
            length: told.length,
            cpu: told.cpu,
            last_cpu: told.last_cpu,
        })
    }
}

/// In place of a time: the packet did not pass there.
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

    fn told(after_ns: [u32; 8], fate: u8) -> hooks_packet {
        let comm = b"ksoftirqd/1\0\0\0\0\0".map(|octet| octet as i8);
        let (begin_ns, task, depth, length, cpu, context) = (1000, 7, 3, 178, 1, 2);
        let told =
            hooks_packet { begin_ns, after_ns, task, comm, depth, length, ..Default::default() };
        hooks_packet { cpu, fate, context, ..told }
    }

    #[test]
    fn stages_add_up_to_the_whole() {
        let told = told([0, 5, 20, 50, ABSENT, 90, 91, 300], 0);
        let packet = Packet::of(&told, Detail::Stages).unwrap();
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
    fn what_a_process_answered_was_at_the_process() {
        let told = told([ABSENT, ABSENT, 0, 30, 700, 900, 910, 1000], 1);
        let packet = Packet::of(&told, Detail::Stages).unwrap();
        assert_eq!(packet.stages_ns[Stage::Softirq as usize], None);
        assert_eq!(packet.stages_ns[Stage::Behind as usize], None);
        assert_eq!(packet.stages_ns[Stage::Socket as usize], Some(670));
        assert_eq!(packet.stages_ns[Stage::Process as usize], Some(200));
        assert_eq!(packet.total_ns, 1000);
    }

    #[test]
    fn the_whole_has_no_stages() {
        let told = hooks_packet {
            depth: ABSENT,
            ..told([0, ABSENT, 50, ABSENT, ABSENT, 90, ABSENT, ABSENT], 0)
        };
        let packet = Packet::of(&told, Detail::Whole).unwrap();
        assert_eq!((packet.total_ns, packet.depth), (90, None));
        assert_eq!(packet.stages_ns, [None; Stage::ALL.len()]);
    }

    #[test]
    fn a_stamp_of_the_nic_is_where_it_begins() {
        let told = told([0, 5, 20, 50, ABSENT, 90, 91, 300], 0);
        let seen = Packet::of(&told, Detail::Stages).unwrap();
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
    fn clocks_of_cpus_that_overlap_make_nothing_negative() {
        let told = told([0, 5, 3, 50, ABSENT, 40, 60, 61], 0);
        let packet = Packet::of(&told, Detail::Stages).unwrap();
        assert_eq!(packet.stages_ns.iter().flatten().sum::<u32>(), packet.total_ns);
        assert_eq!(packet.stages_ns[Stage::Forward as usize], Some(0));
    }

    #[test]
    fn what_is_not_of_this_version_is_no_packet() {
        assert_eq!(Packet::of(&told([0; 8], 9), Detail::Stages), None);
        let two = [told([0; 8], 0), told([0; 8], 4)].map(|told| told.octets().to_vec()).concat();
        assert_eq!(Packet::several(&two, Detail::Stages).count(), 2);
        assert_eq!(Packet::several(&two[1..], Detail::Stages).count(), 1, "the second is cut off");
    }
}
