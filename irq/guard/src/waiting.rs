//! Step 1 of the paper: the candidates. Who waits for which device, from sockets and threads: pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::Octets;
use onbeat_irq_core::policy::Rank;

/// A thread that waits for packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter {
    /// Its process.
    pub process: Process,
    /// Its own number, in the host's first pid namespace.
    pub tid: u32,
}

/// A socket that packets can come for, once for each process that has it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Socket {
    /// The process.
    pub pid: u32,
    /// The thread that last read from it, and its process; `None` where none was seen to.
    pub reader: Option<Reader>,
    /// The index of the interface that it is bound to; 0 for none.
    pub device: u32,
    /// Its local address; unspecified where it has none.
    pub address: IpAddr,
    /// Whether it is in another network namespace than the devices.
    pub elsewhere: bool,
}

/// Who reads a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reader {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

/// A thread of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Which one.
    pub waiter: Waiter,
    /// Its scheduling.
    pub rank: Rank,
    /// Its name, at most 15 octets.
    pub name: Octets,
}

/// The sockets of one network namespace or of all, and all threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// The sockets.
    pub sockets: Vec<Socket>,
    /// The threads.
    pub threads: Vec<Thread>,
    /// Whether they were too many for one scan: there may be sockets and threads besides.
    pub partial: bool,
}

/// What lies above the guarded devices of a network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// By the index of a guarded device: itself, and the bridge, bond, VLANs above.
    pub above: BTreeMap<u32, BTreeSet<u32>>,
    /// The interface that has an address.
    pub addresses: HashMap<IpAddr, u32>,
}

/// Who waits for which device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// By the index of a device.
    pub waiting: BTreeMap<(u32, Waiter), Rank>,
    /// Names of these threads, escaped.
    pub names: BTreeMap<Waiter, String>,
}

impl Places {
    /// The guarded devices by which packets for a socket come. One that is bound to nothing that is
    /// here (any address, a group) may get them from all; one of another namespace, too: what leads there
    /// is not known, and an index or address of there says nothing here.
    fn devices(&self, socket: &Socket) -> impl Iterator<Item = u32> {
        let device = match socket.device {
            _ if socket.elsewhere => None,
            0 => self.addresses.get(&socket.address).copied(),
            device => Some(device),
        };
        let reached = !(socket.elsewhere && socket.address.is_loopback());
        let brings =
            move |above: &BTreeSet<u32>| reached && device.is_none_or(|one| above.contains(&one));
        self.above.iter().filter(move |(_, above)| brings(above)).map(|(device, _)| *device)
    }
}

/// Who waits: of each process that has a socket open, the thread that last read from it, or, while
/// none of its threads was seen to, its highest one. A process that has yet to read from its socket
/// must not be kept from its first packet.
#[must_use]
pub fn candidates(scan: &Scan, places: &Places) -> Candidates {
    let mut highest: HashMap<u32, &Thread> = HashMap::new();
    let mut by_tid: HashMap<u32, &Thread> = HashMap::new();
    for thread in &scan.threads {
        by_tid.insert(thread.waiter.tid, thread);
        let known = highest.entry(thread.waiter.process.pid).or_insert(thread);
        if thread.rank > known.rank {
            *known = thread;
        }
    }
    let mut candidates = Candidates::default();
    for socket in &scan.sockets {
        let reader = socket.reader.filter(|reader| reader.pid == socket.pid);
        let reading = reader.and_then(|reader| by_tid.get(&reader.tid));
        // The reader may have ended, and its number gone to a thread of another process.
        let reading = reading.filter(|thread| thread.waiter.process.pid == socket.pid);
        let Some(thread) = reading.or_else(|| highest.get(&socket.pid)) else { continue };
        for device in places.devices(socket) {
            candidates.waiting.insert((device, thread.waiter), thread.rank);
            candidates.names.entry(thread.waiter).or_insert_with(|| thread.name.to_string());
        }
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: Rank = Rank::Normal { nice: 0 };
    const FIFO: Rank = Rank::Realtime { priority: 80 };

    fn waiter(pid: u32, tid: u32) -> Waiter {
        Waiter { process: Process { pid, start_ticks: pid }, tid }
    }

    fn thread(pid: u32, tid: u32, rank: Rank) -> Thread {
        Thread { waiter: waiter(pid, tid), rank, name: format!("t{tid}").as_str().into() }
    }

    fn socket(pid: u32, address: &str) -> Socket {
        let address = address.parse().unwrap();
        Socket { pid, reader: None, device: 0, address, elsewhere: false }
    }

    /// eth0 (2) below br0 (4), with 10.0.0.1 on the bridge; eth1 (3) with 10.0.1.1; lo (1).
    fn places() -> Places {
        let addresses = [("10.0.0.1", 4), ("10.0.1.1", 3), ("127.0.0.1", 1)];
        Places {
            above: BTreeMap::from([(2, BTreeSet::from([2, 4])), (3, BTreeSet::from([3]))]),
            addresses: addresses.map(|(text, index)| (text.parse().unwrap(), index)).into(),
        }
    }

    fn found(sockets: Vec<Socket>, threads: Vec<Thread>) -> Vec<(u32, u32, Rank)> {
        let candidates = candidates(&Scan { sockets, threads, partial: false }, &places());
        candidates
            .waiting
            .into_iter()
            .map(|((device, who), rank)| (device, who.tid, rank))
            .collect()
    }

    #[test]
    fn sockets_wait_for_the_devices_that_bring_their_packets() {
        let threads = || vec![thread(10, 10, FIFO)];
        let bound = |device| Socket { device, ..socket(10, "0.0.0.0") };
        let elsewhere = |address, device| Socket { device, elsewhere: true, ..socket(10, address) };
        for (socket, devices) in [
            (socket(10, "0.0.0.0"), vec![2, 3]),
            (socket(10, "::"), vec![2, 3]),
            (socket(10, "239.1.2.3"), vec![2, 3]),
            (socket(10, "10.0.0.1"), vec![2]),
            (socket(10, "10.0.1.1"), vec![3]),
            (socket(10, "127.0.0.1"), vec![]),
            (bound(3), vec![3]),
            (bound(4), vec![2]),
            (bound(9), vec![]),
            (elsewhere("0.0.0.0", 0), vec![2, 3]),
            // What these are there, they are not here.
            (elsewhere("10.0.0.1", 0), vec![2, 3]),
            (elsewhere("0.0.0.0", 9), vec![2, 3]),
            (elsewhere("127.0.0.1", 0), vec![]),
            (elsewhere("::1", 0), vec![]),
        ] {
            let expected: Vec<_> = devices.into_iter().map(|device| (device, 10, FIFO)).collect();
            assert_eq!(found(vec![socket], threads()), expected, "{socket:?}");
        }
    }

    #[test]
    fn the_reader_waits_and_before_there_is_one_the_highest_thread() {
        let threads = || vec![thread(10, 10, NORMAL), thread(10, 11, FIFO), thread(20, 20, NORMAL)];
        let read_by =
            |pid, tid| Socket { reader: Some(Reader { pid, tid }), ..socket(10, "10.0.1.1") };
        for (socket, tid, rank) in [
            (socket(10, "10.0.1.1"), 11, FIFO),
            (read_by(10, 10), 10, NORMAL),
            (read_by(10, 11), 11, FIFO),
            // It has ended; its number is another process's; another process reads.
            (read_by(10, 12), 11, FIFO),
            (read_by(10, 20), 11, FIFO),
            (read_by(20, 20), 11, FIFO),
        ] {
            assert_eq!(found(vec![socket], threads()), [(3, tid, rank)], "{socket:?}");
        }
        assert_eq!(found(vec![socket(99, "10.0.1.1")], threads()), [], "it has just ended");
    }

    #[test]
    fn a_socket_that_two_processes_have_open_waits_for_both() {
        let threads = vec![thread(10, 10, NORMAL), thread(20, 20, FIFO)];
        let reader = Some(Reader { pid: 10, tid: 10 });
        let sockets = [10, 20].map(|pid| Socket { reader, ..socket(pid, "10.0.1.1") });
        assert_eq!(found(sockets.into(), threads), [(3, 10, NORMAL), (3, 20, FIFO)]);
    }
}
