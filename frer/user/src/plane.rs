//! The data plane in this process: streams, ports, and the thread that forwards.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use onbeat_frer::dataplane::{AttachedPort, Attachment, Changes, DataPlane, Mode, PortSpec};
use onbeat_frer::paths::PathsReading;
use onbeat_frer::plane::{Plane, StreamRefusal};
use onbeat_frer::prp;
use onbeat_frer::reading::{PortLosses, PortReading, StreamReading};
use onbeat_frer::spec::{MAX_PORTS, PortId, Stream};
use onbeat_frer::wildcard::{Wildcard, WildcardReading};
use onbeat_frer_xdp::{Shield, SteeredPort, Steering};
use onbeat_link::raw::{Clock, Umem, XskSocket};
use onbeat_netdev::{Handle, Link, Namespace};

use crate::port::XskQueue;
use crate::{CopyMode, Error, Forwarder, PollMode, Port, Result, ThreadState, Traffic};

/// Ring size of a port, in frames, for times at which the thread is busy: at 150,000 frames/s, 50 ms. With
/// AF_XDP, half of a port's share of the memory is for reception ([`crate::QUEUE_FRAMES`]).
const FRAMES: u32 = 8192;

/// Streams that are changed, or checked, between two batches of frames: some tens of microseconds.
const AT_ONCE: usize = 64;
const SWEPT_AT_ONCE: usize = 1024;

/// Maximum number of ports with separate memory for frames; more ports share it.
const SHARES: u32 = 16;

/// Options of a data plane.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Capacity in streams.
    pub max_streams: u32,
    /// The method by which its thread waits for frames.
    pub poll: PollMode,
    /// Number of ports that share the memory for AF_XDP frames.
    pub ports: u32,
}

/// The data plane of a node in this process.
#[derive(Debug)]
pub struct UserPlane {
    forwarder: Forwarder,
    /// By name. A port keeps its index while it is attached, whatever its number in the configuration.
    ports: BTreeMap<String, OpenedPort>,
    /// Indices of ports that have no interface yet, by name.
    reserved: BTreeMap<String, PortId>,
    /// The streams in the thread, by name.
    streams: HashMap<String, Stream>,
    max_streams: u32,
    /// Frames in the memory shared by AF_XDP ports.
    frames: u32,
    /// Present once there has been an AF_XDP port.
    xsk: Option<Xsk>,
    /// Present with a link redundancy entity.
    lans: Option<Lans>,
}

/// The LANs of a link redundancy entity.
#[derive(Debug)]
struct Lans {
    /// Names of their ports.
    ports: [String; 2],
    /// Keeps frames of the entity from the network stack; `None`: the kernel does not support it.
    shield: Option<Shield>,
}

/// State shared by AF_XDP ports.
#[derive(Debug)]
struct Xsk {
    umem: Umem,
    /// Selects frames of streams for the sockets.
    steering: Steering,
}

#[derive(Debug, Clone, Copy)]
struct OpenedPort {
    place: PortId,
    index: u32,
    attachment: Attachment,
    /// Receive queues that have a socket.
    queues: u32,
}

impl UserPlane {
    /// Creates a data plane without ports and streams. `prepare`: as for [`Forwarder::start`].
    ///
    /// # Errors
    /// Those of [`Forwarder::start`].
    pub fn start<T>(
        options: Options,
        prepare: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<Self> {
        let plane = Plane::with_room(MAX_PORTS, options.max_streams as usize);
        let forwarder = Forwarder::start(plane, options.poll, prepare)?;
        Ok(Self {
            forwarder,
            ports: BTreeMap::new(),
            reserved: BTreeMap::new(),
            streams: HashMap::new(),
            max_streams: options.max_streams,
            frames: FRAMES * options.ports.clamp(1, SHARES),
            xsk: None,
            lans: None,
        })
    }

    /// Opens a port's interface by packet sockets, in place of the former port.
    fn attach_packet(&mut self, spec: &PortSpec) -> Result<()> {
        let (name, namespace) = (&spec.name, Namespace::current()?);
        let place = self.place(name)?;
        let link = Handle::in_namespace(&namespace)?.link(&spec.interface)?;
        onbeat_link::refuse_foreign_program(&link, self.own_program(&link))
            .map_err(|source| Error::Programmed { port: name.clone(), source })?;
        if link.master.is_some() {
            return Err(Error::Enslaved { port: name.clone(), interface: link.name });
        }
        if self.ports.get(name).is_some_and(|former| former.index == link.index) {
            // A queue has one socket at a time.
            self.forwarder.control().set_port(place, None)?;
        }
        let port = Port::packet(&namespace, &link.name, FRAMES as usize)?;
        if let Some(xsk) = &mut self.xsk {
            xsk.steering.detach(name)?;
        }
        let opened =
            OpenedPort { place, index: link.index, attachment: Attachment::Packet, queues: 1 };
        self.open(name, opened, port)
    }

    /// Opens a port's interface by AF_XDP, in place of the former port.
    fn attach_xsk(&mut self, spec: &PortSpec, replace: bool) -> Result<()> {
        let place = self.place(&spec.name)?;
        // A queue has one socket at a time.
        self.forwarder.control().set_port(place, None)?;
        let Xsk { umem, steering } = match &mut self.xsk {
            Some(xsk) => xsk,
            None => {
                let (umem, pool) = Umem::new(self.frames).map_err(|source| Error::System {
                    what: "cannot allocate memory for frames",
                    source,
                })?;
                self.forwarder.control().run(move |inside| inside.set_pool(pool))?;
                let steering = Steering::open(self.max_streams)?;
                self.xsk.insert(Xsk { umem, steering })
            }
        };
        steering.attach(spec, replace)?;
        // Zero copy depends on the driver, and requires the attached program.
        let copy = spec.mode == Mode::Generic;
        let deliver = |queue, socket: BorrowedFd<'_>| -> Result<()> {
            Ok(steering.deliver(&spec.name, queue, socket)?)
        };
        let opened = Port::xsk(&Namespace::current()?, &spec.interface, umem, copy, deliver);
        // Without sockets, its program would keep frames from all receivers.
        let port = match opened {
            Ok(port) => port,
            Err(error) => {
                steering.detach(&spec.name)?;
                return Err(error);
            }
        };
        let zero_copy = port.copies() == Some(CopyMode::None);
        let attachment = Attachment::Xsk { mode: spec.mode, zero_copy };
        let queues = port.input.queues() as u32;
        let opened = OpenedPort { place, index: spec.ifindex, attachment, queues };
        self.open(&spec.name, opened, port)?;
        self.steer()
    }

    /// Opens sockets for receive queues that an AF_XDP port got since. Those that it lost receive nothing, and their sockets
    /// are of use when they return.
    fn open_new_queues(&mut self, spec: &PortSpec) -> Result<()> {
        let (Some(opened), Some(Xsk { umem, steering })) =
            (self.ports.get_mut(&spec.name), &mut self.xsk)
        else {
            return Ok(());
        };
        let Attachment::Xsk { mode, mut zero_copy } = opened.attachment else { return Ok(()) };
        let namespace = Namespace::current()?;
        let link = Handle::in_namespace(&namespace)?.link(&spec.interface)?;
        let many = XskSocket::queues(&namespace, &link);
        let deliver = |queue, socket: BorrowedFd<'_>| -> Result<()> {
            Ok(steering.deliver(&spec.name, queue, socket)?)
        };
        let (place, copy) = (opened.place, mode == Mode::Generic);
        // One by one: a queue that can be opened receives frames, whatever the next one does.
        while opened.queues < many {
            let (queue, _) =
                XskQueue::open(&namespace, &spec.interface, opened.queues, umem, copy, deliver)?;
            zero_copy &= queue.copies == CopyMode::None;
            self.forwarder.control().run(move |inside| inside.add_queue(place, queue))?;
            opened.queues += 1;
            opened.attachment = Attachment::Xsk { mode, zero_copy };
        }
        tracing::info!("port {:?}: {} has {many} receive queues now", spec.name, spec.interface);
        // New queues of a veth run no program until it gets another one.
        Ok(steering.attach(spec, false)?)
    }

    /// Steers all streams by the present ports.
    fn steer(&mut self) -> Result<()> {
        let (ports, streams) = (self.names(), self.streams.values().cloned().collect::<Vec<_>>());
        if let Some(xsk) = &mut self.xsk {
            xsk.steering.apply(&ports, &streams)?;
        }
        Ok(())
    }

    /// Keeps frames of the link redundancy entity from the network stack of its LANs, if the kernel supports it.
    fn shield_lans(&mut self) {
        let Some(Lans { ports, shield: Some(shield) }) = &mut self.lans else { return };
        let indices = ports.iter().filter_map(|port| Some(self.ports.get(port)?.index));
        if let Err(error) = shield.set_interfaces(&indices.collect::<Vec<_>>()) {
            tracing::warn!(
                "{error}: the network stack of the LAN interfaces also receives multicast frames of the PRP node; set \
                 arp_ignore=1 there"
            );
        }
    }

    /// Returns the program of one of these ports that runs on an interface.
    fn own_program(&self, link: &Link) -> Option<u32> {
        let steering = &self.xsk.as_ref()?.steering;
        let here = self.ports.iter().filter(|(_, opened)| opened.index == link.index);
        here.filter_map(|(name, _)| steering.running_program(name)).next()
    }

    fn open(&mut self, name: &str, opened: OpenedPort, port: Port) -> Result<()> {
        self.forwarder.control().set_port(opened.place, Some(port))?;
        self.reserved.remove(name);
        self.ports.insert(name.to_owned(), opened);
        self.shield_lans();
        Ok(())
    }

    /// Returns the index of a port: its current one, or a free one.
    fn place(&self, name: &str) -> Result<PortId> {
        self.known_place(name).map_or_else(|| self.free_place(), Ok)
    }

    /// Returns the index of an attached or reserved port.
    fn known_place(&self, name: &str) -> Option<PortId> {
        let opened = self.ports.get(name).map(|opened| opened.place);
        opened.or_else(|| self.reserved.get(name).copied())
    }

    /// Returns the attached and reserved ports.
    fn places(&self) -> impl Iterator<Item = (&String, PortId)> {
        let opened = self.ports.iter().map(|(name, opened)| (name, opened.place));
        opened.chain(self.reserved.iter().map(|(name, place)| (name, *place)))
    }

    fn free_place(&self) -> Result<PortId> {
        let taken: BTreeSet<u8> = self.places().map(|(_, place)| place.0).collect();
        let mut places = 0..MAX_PORTS as u8;
        let free = places.find(|place| !taken.contains(place));
        free.map(PortId).ok_or(Error::Ports { most: MAX_PORTS })
    }

    /// Returns the names of ports by index.
    fn names(&self) -> Vec<String> {
        let mut names = vec![String::new(); MAX_PORTS];
        for (name, place) in self.places() {
            names[usize::from(place.0)].clone_from(name);
        }
        names
    }

    /// Changes streams in the thread, several at a time, so that frames do not wait for all of them.
    ///
    /// # Errors
    /// A refusal: the former steering is restored.
    fn change_in_steps(
        &mut self,
        names: &[String],
        gone: &[&str],
        streams: &[Stream],
    ) -> Result<()> {
        let mut done = 0;
        for some in streams.chunks(AT_ONCE) {
            // A stream that takes frames of a later one can only change together with it.
            if self.change_some(&[], some)?.is_err() {
                break;
            }
            done += some.len();
        }
        let rest = &streams[done..];
        let gone_with = if rest.is_empty() { &[] } else { gone };
        let Err(refusal) = self.change_some(gone_with, rest)? else {
            for some in gone[gone_with.len()..].chunks(AT_ONCE) {
                // Removing streams is never refused.
                let _ = self.change_some(some, &[])?;
            }
            return Ok(());
        };
        let (new, before): (Vec<_>, Vec<_>) = streams[..done]
            .iter()
            .map(|stream| (stream.name.as_str(), self.streams.get(&stream.name).cloned()))
            .unzip();
        // All of them existed.
        let _ = self.change_some(&new, &before.into_iter().flatten().collect::<Vec<_>>())?;
        self.steer()?;
        Err(self.refused(names, refusal))
    }

    fn change_some(
        &self,
        gone: &[&str],
        streams: &[Stream],
    ) -> Result<std::result::Result<(), StreamRefusal>> {
        let gone: Vec<String> = gone.iter().map(|name| (*name).to_owned()).collect();
        let streams = streams.to_vec();
        self.run(move |inside| {
            let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
            inside.plane.change(&gone, &streams)
        })
    }

    /// Converts the plane's refusal to port numbers of the configuration.
    fn refused(&self, names: &[String], mut refusal: StreamRefusal) -> Error {
        if let StreamRefusal::Conflict(conflict) = &mut refusal {
            let number =
                names.iter().position(|name| self.known_place(name) == Some(conflict.port));
            conflict.port = number.map_or(conflict.port, |number| PortId(number as u8));
        }
        Error::Refused { refusal }
    }

    /// Removes the streams named in `gone`, and adds or changes `streams`; `steer` does the same in the
    /// steering program.
    fn update(
        &mut self,
        names: &[String],
        gone: &[&str],
        streams: Vec<Stream>,
        steer: impl FnOnce(
            &mut Steering,
            &[String],
            &[Stream],
        ) -> std::result::Result<Changes, onbeat_frer_xdp::Error>,
    ) -> Result<Changes> {
        let there = |stream: &&Stream| self.streams.contains_key(&stream.name);
        let changed = streams.iter().filter(there).count();
        let (added, removed) = (streams.len() - changed, gone.len());
        let kept = self.streams.len() - changed - removed;
        // First the part that may be refused for lack of room, and can be reverted without loss.
        let ports = self.names();
        if let Some(xsk) = &mut self.xsk {
            steer(&mut xsk.steering, &ports, &streams)?;
        }
        self.change_in_steps(names, gone, &streams)?;
        gone.iter().for_each(|name| _ = self.streams.remove(*name));
        self.streams.extend(streams.into_iter().map(|stream| (stream.name.clone(), stream)));
        Ok(Changes { added, changed, removed, kept })
    }

    fn all_placed(&self, names: &[String], streams: &[Stream]) -> Result<Vec<Stream>> {
        streams.iter().map(|stream| self.placed(names, stream)).collect()
    }

    /// Returns the stream with indexes of ports instead of their numbers.
    fn placed(&self, names: &[String], stream: &Stream) -> Result<Stream> {
        let place = |port| {
            self.placed_port(names, port)
                .map_err(|port| Error::NotAttached { stream: stream.name.clone(), port })
        };
        let mut stream = stream.clone();
        for member in &mut stream.members {
            member.port = place(member.port)?;
        }
        for egress in &mut stream.egress {
            egress.port = place(egress.port)?;
        }
        Ok(stream)
    }

    /// Returns the entity with indexes of ports instead of their numbers.
    fn placed_lre(&self, names: &[String], lre: &prp::Parameters) -> Result<prp::Parameters> {
        let place =
            |port| self.placed_port(names, port).map_err(|port| Error::LreNotAttached { port });
        let mut lre = lre.clone();
        for port in [&mut lre.a.port, &mut lre.b.port, &mut lre.host] {
            *port = place(*port)?;
        }
        Ok(lre)
    }

    /// Returns the index of a port by its number; its name if it is neither attached nor reserved.
    fn placed_port(&self, names: &[String], port: PortId) -> std::result::Result<PortId, String> {
        let name = &names[usize::from(port.0)];
        self.known_place(name).ok_or_else(|| name.clone())
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut ThreadState) -> T + Send + 'static,
    ) -> Result<T> {
        self.forwarder.control().run(work)
    }
}

impl<E: From<Error>> DataPlane<E> for UserPlane {
    fn is_in_kernel(&self) -> bool {
        false
    }

    fn attach(&mut self, port: &PortSpec, replace: bool) -> Result<(), E> {
        Ok(self.attach_xsk(port, replace)?)
    }

    fn attach_packet(&mut self, port: &PortSpec) -> Result<(), E> {
        Ok(UserPlane::attach_packet(self, port)?)
    }

    fn follow_queues(&mut self, port: &PortSpec) -> Result<(), E> {
        Ok(self.open_new_queues(port)?)
    }

    fn known_ports(&self) -> Result<Vec<String>, E> {
        Ok(self.places().map(|(name, _)| name.clone()).collect())
    }

    fn reserve(&mut self, name: &str) -> Result<(), E> {
        if !self.ports.contains_key(name) {
            let place = self.place(name)?;
            self.reserved.insert(name.to_owned(), place);
        }
        Ok(())
    }

    fn detach(&mut self, name: &str) -> Result<(), E> {
        let opened = self.ports.remove(name);
        let reserved = self.reserved.remove(name);
        let Some(place) = opened.map(|opened| opened.place).or(reserved) else { return Ok(()) };
        if let Some(xsk) = &mut self.xsk {
            xsk.steering.detach(name).map_err(Error::from)?;
        }
        self.forwarder.control().set_port(place, None)?;
        // Another port may get the place.
        let restart = move |inside: &mut ThreadState| {
            inside.former[usize::from(place.0)] = Traffic::default();
        };
        Ok(self.run(restart)?)
    }

    fn ports(&self) -> Vec<AttachedPort> {
        let attached = self.ports.iter().map(|(name, opened)| AttachedPort {
            name: name.clone(),
            ifindex: opened.index,
            attachment: opened.attachment,
        });
        attached.collect()
    }

    fn runs(&self, name: &str) -> bool {
        match (self.ports.get(name), &self.xsk) {
            (Some(OpenedPort { attachment: Attachment::Xsk { .. }, .. }), Some(xsk)) => {
                xsk.steering.runs(name)
            }
            (opened, _) => opened.is_some(),
        }
    }

    fn apply(&mut self, names: &[String], streams: &[Stream]) -> Result<Changes, E> {
        let streams = self.all_placed(names, streams)?;
        let wanted: BTreeSet<&str> = streams.iter().map(|stream| stream.name.as_str()).collect();
        let gone: Vec<String> =
            self.streams.keys().filter(|name| !wanted.contains(name.as_str())).cloned().collect();
        let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
        let is_new = |stream: &&Stream| self.streams.get(&stream.name) != Some(*stream);
        let new = streams.iter().filter(is_new).cloned().collect();
        let steer =
            |steering: &mut Steering, ports: &[String], _: &[_]| steering.apply(ports, &streams);
        Ok(self.update(names, &gone, new, steer)?)
    }

    fn change(
        &mut self,
        names: &[String],
        gone: &[&str],
        streams: &[Stream],
    ) -> Result<Changes, E> {
        let streams = self.all_placed(names, streams)?;
        let steer = |steering: &mut Steering, ports: &[String], streams: &[_]| {
            steering.change(ports, gone, streams)
        };
        Ok(self.update(names, gone, streams, steer)?)
    }

    fn set_lre(&mut self, names: &[String], lre: Option<&prp::Parameters>) -> Result<(), E> {
        let name = |port: PortId| names[usize::from(port.0)].clone();
        let ports = lre.map(|lre| [name(lre.a.port), name(lre.b.port)]);
        let lre = lre.map(|lre| self.placed_lre(names, lre)).transpose()?;
        self.lans = ports.map(|ports| {
            let shield = self.lans.take().and_then(|lans| lans.shield);
            let shield = shield.map_or_else(Shield::open, Ok);
            let failed = |error| tracing::warn!("{error}");
            Lans { ports, shield: shield.map_err(failed).ok() }
        });
        self.shield_lans();
        // Not the time of the thread: that of a waiting frame would shorten the silence after a start.
        let now_ns = Clock::read().now_ns();
        Ok(self.run(move |inside| inside.plane.set_lre(lre.as_ref(), now_ns))?)
    }

    fn set_wildcards(&mut self, names: &[String], wildcards: &[Wildcard]) -> Result<(), E> {
        let placed = |wildcard: &Wildcard| {
            let link = self.placed_lre(names, &wildcard.link)?;
            Ok(Wildcard { link, ..wildcard.clone() })
        };
        let wildcards = wildcards.iter().map(placed).collect::<Result<Vec<_>>>()?;
        // As for the entity.
        let now_ns = Clock::read().now_ns();
        Ok(self.run(move |inside| inside.plane.set_wildcards(&wildcards, now_ns))?)
    }

    fn read_wildcards(&self) -> Result<Vec<WildcardReading>, E> {
        Ok(self.run(|inside| inside.plane.read_wildcards(inside.now_ns))?)
    }

    fn read_lre(&self) -> Result<Option<prp::Reading>, E> {
        Ok(self.run(|inside| inside.plane.lre().map(|lre| lre.read()))?)
    }

    fn supervise(&self) -> Result<Option<u32>, E> {
        Ok(self.run(ThreadState::supervise)?)
    }

    fn listen(&self) -> Result<(), E> {
        Ok(self.run(ThreadState::listen)?)
    }

    fn leave(&self) -> Result<(), E> {
        Ok(self.run(ThreadState::leave)?)
    }

    fn read_stream(&self, name: &str) -> Result<Option<StreamReading>, E> {
        let name = name.to_owned();
        Ok(self.run(move |inside| inside.plane.read(&name, inside.now_ns))?)
    }

    fn read_paths(&self, name: &str) -> Result<Option<PathsReading>, E> {
        let name = name.to_owned();
        Ok(self.run(move |inside| inside.plane.read_paths(&name))?)
    }

    fn read_streams(&self, names: &[Rc<str>]) -> Result<Vec<Option<StreamReading>>, E> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        // One request to the thread for all of them.
        let read = move |inside: &mut ThreadState| {
            names.iter().map(|name| inside.plane.read(name, inside.now_ns)).collect()
        };
        Ok(self.run(read)?)
    }

    fn read_port(&self, port: &str) -> Result<PortReading, E> {
        let Some(place) = self.known_place(port) else { return Ok(PortReading::default()) };
        let attachment = self.ports.get(port).map(|opened| opened.attachment);
        let steered = match (&self.xsk, attachment) {
            (Some(xsk), Some(Attachment::Xsk { .. })) => {
                xsk.steering.read_port(port).map_err(Error::from)?
            }
            _ => SteeredPort::default(),
        };
        let (unmatched, traffic) =
            self.run(move |inside| (inside.plane.unmatched(place), inside.total_traffic(place)))?;
        let Traffic { too_long, no_room, sent, unsent, .. } = traffic?;
        let losses = PortLosses {
            queue_full: no_room,
            no_socket: steered.no_socket,
            too_long,
            interface_down: unsent.interface_down,
            exceeds_mtu: unsent.too_long,
            not_sent: unsent.refused,
            ..PortLosses::default()
        };
        Ok(PortReading { unmatched: steered.unmatched + unmatched, sent: Some(sent), losses })
    }

    fn reset(&self, name: &str) -> Result<bool, E> {
        let name = name.to_owned();
        Ok(self.run(move |inside| inside.plane.reset(&name, inside.now_ns))?)
    }

    fn set_number(&self, name: &str, number: u16) -> Result<bool, E> {
        let name = name.to_owned();
        Ok(self.run(move |inside| inside.plane.set_number(&name, number))?)
    }

    fn expire(&self) -> Result<(), E> {
        let mut next = Some(0);
        while let Some(from) = next {
            let some = move |inside: &mut ThreadState| {
                inside.plane.expire_some(inside.now_ns, from, SWEPT_AT_ONCE)
            };
            next = self.run(some)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use onbeat_frer::dataplane::ReceiveQueues;
    use onbeat_netdev::{Handle, VethEnd};
    use onbeat_testing::{Feature, require_all};

    use super::*;

    /// A port changes from AF_XDP to packet sockets: its own program is detached, that of another process is
    /// refused.
    #[test]
    fn a_program_that_replaced_the_port_s_is_foreign() {
        if !require_all(&[Feature::Root, Feature::Veth, Feature::Btf]) {
            return;
        }
        Namespace::new().unwrap().run(check_own_and_foreign_program).unwrap();
    }

    fn check_own_and_foreign_program() {
        let handle = Handle::open().unwrap();
        handle.create_veth(&VethEnd::new("a"), &VethEnd::new("b")).unwrap();
        ["a", "b"].iter().for_each(|name| handle.set_up(name).unwrap());
        let spec = |name: &str| PortSpec {
            name: name.into(),
            interface: "a".into(),
            ifindex: handle.index("a").unwrap(),
            mode: Mode::Native,
            queues: ReceiveQueues::Concurrent,
            running: Vec::new(),
        };
        let options = Options { max_streams: 16, poll: PollMode::Sleep, ports: 1 };
        let mut plane = UserPlane::start(options, || Ok(())).unwrap();
        plane.attach_xsk(&spec("p"), false).unwrap();
        plane.attach_packet(&spec("p")).unwrap();

        plane.attach_xsk(&spec("p"), false).unwrap();
        // Like another process that detaches the program and attaches its own.
        plane.xsk.as_mut().unwrap().steering.detach("p").unwrap();
        let mut foreign = Steering::open(16).unwrap();
        foreign.attach(&spec("foreign"), false).unwrap();
        let error = plane.attach_packet(&spec("p")).unwrap_err();
        assert!(matches!(&error, Error::Programmed { .. }), "{error}");
        assert!(foreign.runs("foreign"));
    }
}
