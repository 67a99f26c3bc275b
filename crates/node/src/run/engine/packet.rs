//! The data plane in this process: streams, ports, and the thread that forwards.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use onbeat_frer::identify::Conflict;
use onbeat_frer::plane::{Plane, Refusal};
use onbeat_frer::reading::StreamReading;
use onbeat_frer::spec::{MAX_PORTS, PortId, Stream};
use onbeat_frer_user::{Forwarder, Inside, Poll, Port};
use onbeat_frer_xdp::Changes;
use onbeat_netdev::{Link, Namespace};
use onbeat_realtime::Profile;

use super::super::error::{Error, Result};

/// Frames that a port has room for while the thread is busy: at 150,000 a second, 50 ms.
const FRAMES: usize = 8192;

#[derive(Debug)]
pub(in super::super) struct PacketPlane {
    forwarder: Forwarder,
    /// By name. A port keeps its place while it is there, whatever its number in the file.
    ports: BTreeMap<String, Opened>,
    /// As the thread has them, by name.
    streams: HashMap<String, Stream>,
}

#[derive(Debug, Clone, Copy)]
struct Opened {
    place: PortId,
    index: u32,
}

impl PacketPlane {
    /// A data plane without ports and streams.
    pub(in super::super) fn start(poll: Poll, realtime: Profile) -> Result<Self> {
        let prepare = move || {
            let entered = realtime.enter().map_err(io::Error::other)?;
            if realtime != Profile::default() {
                tracing::info!("forwarding thread: {entered}");
            }
            Ok(entered)
        };
        let forwarder = Forwarder::start(Plane::new(MAX_PORTS), poll, prepare)?;
        Ok(Self { forwarder, ports: BTreeMap::new(), streams: HashMap::new() })
    }

    /// Opens a port's interface, in place of the one before.
    pub(in super::super) fn attach(&mut self, name: &str, link: &Link) -> Result<()> {
        let place = match self.ports.get(name) {
            Some(opened) => opened.place,
            None => self.free_place()?,
        };
        if link.master.is_some() {
            return Err(Error::Enslaved { port: name.to_owned(), interface: link.name.clone() });
        }
        let port = Port::open(&Namespace::current()?, &link.name, FRAMES)?;
        self.run(move |inside| inside.set_port(place, Some(port)))?;
        self.ports.insert(name.to_owned(), Opened { place, index: link.index });
        Ok(())
    }

    fn free_place(&self) -> Result<PortId> {
        let taken: BTreeSet<u8> = self.ports.values().map(|opened| opened.place.0).collect();
        let mut places = 0..MAX_PORTS as u8;
        let free = places.find(|place| !taken.contains(place));
        free.map(PortId).ok_or(Error::Ports { most: MAX_PORTS })
    }

    pub(super) fn ports(&self) -> impl Iterator<Item = (&str, u32)> {
        self.ports.iter().map(|(name, opened)| (name.as_str(), opened.index))
    }

    pub(super) fn detach(&mut self, name: &str) -> Result<()> {
        let Some(opened) = self.ports.remove(name) else { return Ok(()) };
        self.run(move |inside| inside.set_port(opened.place, None))
    }

    pub(super) fn apply(&mut self, names: &[String], streams: &[Stream]) -> Result<Changes> {
        let streams = streams.iter().map(|stream| self.placed(names, stream));
        let streams = streams.collect::<Result<Vec<_>>>()?;
        let wanted: BTreeSet<&str> = streams.iter().map(|stream| stream.name.as_str()).collect();
        let gone: Vec<String> =
            self.streams.keys().filter(|name| !wanted.contains(name.as_str())).cloned().collect();
        let mut changes = Changes { removed: gone.len(), ..Changes::default() };
        let mut new = Vec::new();
        for stream in &streams {
            match self.streams.get(&stream.name) {
                Some(before) if before == stream => {
                    changes.kept += 1;
                    continue;
                }
                Some(_) => changes.changed += 1,
                None => changes.added += 1,
            }
            new.push(stream.clone());
        }
        let applied = self.run(move |inside| {
            let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
            inside.plane.change(&gone, &new)
        })?;
        applied.map_err(|refusal| self.refused(names, refusal))?;
        self.streams = streams.into_iter().map(|stream| (stream.name.clone(), stream)).collect();
        Ok(changes)
    }

    /// The plane's refusal, with the numbers of ports for their places.
    fn refused(&self, names: &[String], refusal: Refusal) -> Error {
        let Refusal::Conflict(conflict) = refusal else { return Error::Refused { refusal } };
        let place = |name: &String| self.ports.get(name).map(|opened| opened.place);
        let number = names.iter().position(|name| place(name) == Some(conflict.port));
        let port = number.map_or(conflict.port, |number| PortId(number as u8));
        onbeat_frer_xdp::Error::from(Conflict { port, ..conflict }).into()
    }

    /// The stream with the places of its ports for their numbers.
    fn placed(&self, names: &[String], stream: &Stream) -> Result<Stream> {
        let place = |port: PortId| {
            let name = &names[usize::from(port.0)];
            let opened = self.ports.get(name).map(|opened| opened.place);
            opened.ok_or_else(|| Error::NotAttached {
                stream: stream.name.clone(),
                port: name.clone(),
            })
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

    pub(super) fn read_stream(&self, name: &str) -> Result<Option<StreamReading>> {
        let name = name.to_owned();
        self.run(move |inside| inside.plane.read(&name, inside.now_ns))
    }

    pub(super) fn unmatched(&self, port: &str) -> Result<u64> {
        let Some(opened) = self.ports.get(port).copied() else { return Ok(0) };
        self.run(move |inside| inside.plane.unmatched(opened.place))
    }

    pub(super) fn reset(&self, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.run(move |inside| inside.plane.reset(&name, inside.now_ns))
    }

    pub(super) fn expire(&self) -> Result<()> {
        self.run(|inside| inside.plane.expire(inside.now_ns))
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Inside) -> T + Send + 'static,
    ) -> Result<T> {
        Ok(self.forwarder.control().run(work)?)
    }
}
