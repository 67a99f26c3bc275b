//! Step 1 of the paper: the candidates. Finds the threads that wait for each device, from sockets and threads:
//! pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};

use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::Octets;
use onbeat_irq_core::policy::Rank;

/// A thread that waits for packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitingThread {
    /// Its process.
    pub process: Process,
    /// Its id, in the host's first pid namespace.
    pub tid: u32,
}

/// A socket that can receive packets, once for each process that has it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Socket {
    /// The process.
    pub pid: u32,
    /// The thread that last read from it, and its process; `None` if no read was observed.
    pub reader: Option<Reader>,
    /// The index of the interface it is bound to; 0 for none.
    pub device: u32,
    /// Its local address; unspecified if it has none.
    pub address: IpAddr,
    /// Whether it is in another network namespace than the devices.
    pub elsewhere: bool,
}

impl Socket {
    /// The same without an address that no interface has.
    pub(super) fn with_known_address(self, has_address: impl Fn(&IpAddr) -> bool) -> Self {
        if has_address(&self.address) || self.address.is_loopback() {
            return self;
        }
        Self { address: Ipv4Addr::UNSPECIFIED.into(), ..self }
    }
}

/// The reader of a socket.
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
    /// Its ids.
    pub waiter: WaitingThread,
    /// Its scheduling.
    pub rank: Rank,
    /// Its name, at most 15 octets.
    pub name: Octets,
    /// Its real user, which no unprivileged process changes.
    pub user: u32,
}

/// The sockets of one network namespace or of all, and all threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// The sockets.
    pub sockets: Vec<Socket>,
    /// The threads.
    pub threads: Vec<Thread>,
    /// Whether the scan is incomplete: there may be other sockets and threads.
    pub partial: bool,
}

impl Scan {
    /// Replaces what is known of a process.
    pub(super) fn replace_process(&mut self, pid: u32, of_process: Scan) {
        self.sockets.retain(|socket| socket.pid != pid);
        self.sockets.extend(of_process.sockets);
        self.threads.retain(|thread| thread.waiter.process.pid != pid);
        self.threads.extend(of_process.threads);
    }
}

impl Candidates {
    /// Replaces those of a process.
    pub(super) fn replace_process(&mut self, pid: u32, of_process: Candidates) {
        self.waiting.retain(|(_, waiter), _| waiter.process.pid != pid);
        self.waiting.extend(of_process.waiting);
        self.names.retain(|waiter, _| waiter.process.pid != pid);
        self.names.extend(of_process.names);
    }
}

/// The upper devices of the guarded devices of a network namespace, and addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceTopology {
    /// By the index of a guarded device: itself, and its bridge, bond, VLANs.
    pub above: BTreeMap<u32, BTreeSet<u32>>,
    /// The interface that has an address.
    pub addresses: HashMap<IpAddr, u32>,
}

/// The threads that wait, by device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Their ranks, by the index of a device.
    pub waiting: BTreeMap<(u32, WaitingThread), Rank>,
    /// Names of these threads, escaped.
    pub names: BTreeMap<WaitingThread, String>,
}

impl DeviceTopology {
    /// The guarded devices that can receive packets for a socket: all of them if it is bound to no local
    /// address (any address, a group). All of them for a socket of another namespace, too: the path to it is
    /// unknown, and its indices and addresses have no meaning here.
    pub(super) fn devices(&self, socket: &Socket) -> impl Iterator<Item = u32> {
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

/// The candidates: of each process with an open socket, the thread that last read from it. While no read was
/// observed, the thread with the highest rank: a process that has not read yet must not be delayed at its first
/// packet.
#[must_use]
pub fn candidates(scan: &Scan, places: &DeviceTopology) -> Candidates {
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
        // The reader may have exited, and its id be that of a thread of another process.
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

    fn waiter(pid: u32, tid: u32) -> WaitingThread {
        WaitingThread { process: Process { pid, start_ticks: pid }, tid }
    }

    fn thread(pid: u32, tid: u32, rank: Rank) -> Thread {
        Thread { waiter: waiter(pid, tid), rank, name: format!("t{tid}").as_str().into(), user: 0 }
    }

    fn socket(pid: u32, address: &str) -> Socket {
        let address = address.parse().unwrap();
        Socket { pid, reader: None, device: 0, address, elsewhere: false }
    }

    /// eth0 (2) below br0 (4), with 10.0.0.1 on the bridge; eth1 (3) with 10.0.1.1; lo (1).
    fn places() -> DeviceTopology {
        let addresses = [("10.0.0.1", 4), ("10.0.1.1", 3), ("127.0.0.1", 1)];
        DeviceTopology {
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
    fn sockets_wait_for_the_devices_of_their_packets() {
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
            // These have another meaning in that namespace.
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
    fn the_reader_waits_or_without_one_the_highest_thread() {
        let threads = || vec![thread(10, 10, NORMAL), thread(10, 11, FIFO), thread(20, 20, NORMAL)];
        let read_by =
            |pid, tid| Socket { reader: Some(Reader { pid, tid }), ..socket(10, "10.0.1.1") };
        for (socket, tid, rank) in [
            (socket(10, "10.0.1.1"), 11, FIFO),
            (read_by(10, 10), 10, NORMAL),
            (read_by(10, 11), 11, FIFO),
            // It has exited; its id is another process's; another process reads.
            (read_by(10, 12), 11, FIFO),
            (read_by(10, 20), 11, FIFO),
            (read_by(20, 20), 11, FIFO),
        ] {
            assert_eq!(found(vec![socket], threads()), [(3, tid, rank)], "{socket:?}");
        }
        assert_eq!(found(vec![socket(99, "10.0.1.1")], threads()), [], "it has just exited");
    }

    #[test]
    fn a_socket_that_two_processes_have_open_waits_for_both() {
        let threads = vec![thread(10, 10, NORMAL), thread(20, 20, FIFO)];
        let reader = Some(Reader { pid: 10, tid: 10 });
        let sockets = [10, 20].map(|pid| Socket { reader, ..socket(pid, "10.0.1.1") });
        assert_eq!(found(sockets.into(), threads), [(3, 10, NORMAL), (3, 20, FIFO)]);
    }
}
