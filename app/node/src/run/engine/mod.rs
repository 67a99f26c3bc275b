//! What moves the frames: one data plane or the other, and what a node asks of either.

mod user;

use std::rc::Rc;

use onbeat_frer::reading::StreamReading;
use onbeat_frer::spec::Stream;
use onbeat_frer_xdp::{Changes, Memory, Plane};

use super::error::Result;
pub(super) use user::{By, UserPlane};

/// A node's data plane.
#[derive(Debug)]
pub(super) enum Engine {
    /// In the kernel; outlives the daemon.
    Xdp(Box<Plane>),
    /// In this process.
    User(Box<UserPlane>),
}

impl Engine {
    /// Whether it goes on without the daemon.
    pub(super) fn is_in_kernel(&self) -> bool {
        matches!(self, Self::Xdp(_))
    }

    /// What a port in user space is.
    pub(super) fn port_by(&self, name: &str) -> Option<By> {
        match self {
            Self::Xdp(_) => None,
            Self::User(plane) => {
                plane.ports().find(|(known, ..)| *known == name).map(|(_, _, by)| by)
            }
        }
    }

    /// Makes `streams` the node's, without losing a frame of any that stays. Port number `n` of the
    /// streams is `names[n]`.
    pub(super) fn apply(&mut self, names: &[String], streams: &[Stream]) -> Result<Changes> {
        match self {
            Self::Xdp(plane) => Ok(plane.apply(names, streams)?),
            Self::User(plane) => plane.apply(names, streams),
        }
    }

    /// Takes the streams `gone` away and makes `streams` what they say, in a time that goes by these
    /// alone. All is as before where it fails.
    pub(super) fn change(
        &mut self,
        names: &[String],
        gone: &[&str],
        streams: &[Stream],
    ) -> Result<Changes> {
        match self {
            Self::Xdp(plane) => Ok(plane.change(names, gone, streams)?),
            Self::User(plane) => plane.change(names, gone, streams),
        }
    }

    /// Ports that are attached: name, index of the interface, and how.
    pub(super) fn ports(&self) -> Vec<(String, u32, &'static str)> {
        match self {
            Self::Xdp(plane) => plane
                .ports()
                .map(|(name, index, mode)| (name.to_owned(), index, mode.name()))
                .collect(),
            Self::User(plane) => {
                plane.ports().map(|(name, index, by)| (name.to_owned(), index, by.name())).collect()
            }
        }
    }

    /// Whether a port's program, where it has one, runs where it was attached.
    pub(super) fn runs(&self, name: &str) -> bool {
        match self {
            Self::Xdp(plane) => plane.runs(name),
            Self::User(plane) => plane.runs(name),
        }
    }

    /// Whether pins outlive this process's mount namespace; `None` where nothing is pinned, or that
    /// cannot be read.
    pub(super) fn pins_last(&self) -> Option<bool> {
        match self {
            Self::Xdp(plane) => plane.pins_last(),
            Self::User(_) => None,
        }
    }

    /// Ports that an earlier daemon or configuration attached, those of now among them.
    pub(super) fn known_ports(&self) -> Result<Vec<String>> {
        match self {
            Self::Xdp(plane) => Ok(plane.pinned_ports()?),
            Self::User(plane) => Ok(plane.ports().map(|(name, ..)| name.to_owned()).collect()),
        }
    }

    /// Takes a port away.
    pub(super) fn detach(&mut self, name: &str) -> Result<()> {
        match self {
            Self::Xdp(plane) => Ok(plane.detach(name)?),
            Self::User(plane) => plane.detach(name),
        }
    }

    /// Notes that a port's interface was turned on or off.
    pub(super) fn set_up(&mut self, name: &str, up: bool) -> Result<()> {
        match self {
            Self::Xdp(plane) => Ok(plane.set_up(name, up)?),
            // Its socket sees.
            Self::User(_) => Ok(()),
        }
    }

    /// A stream's counters; `None` where there is no such stream.
    pub(super) fn read_stream(&self, name: &str) -> Result<Option<StreamReading>> {
        match self {
            Self::Xdp(plane) => Ok(plane.read_stream(name)?),
            Self::User(plane) => plane.read_stream(name),
        }
    }

    /// The counters of some streams; `None` where there is no such stream.
    pub(super) fn read_streams(&self, names: &[Rc<str>]) -> Result<Vec<Option<StreamReading>>> {
        match self {
            Self::Xdp(plane) => {
                let readings = names.iter().map(|name| plane.read_stream(name));
                Ok(readings.collect::<std::result::Result<_, _>>()?)
            }
            Self::User(plane) => plane.read_streams(names),
        }
    }

    /// What the tables for streams take, where they are made for so many from the start.
    pub(super) fn memory(&self) -> Result<Option<Memory>> {
        match self {
            Self::Xdp(plane) => Ok(Some(plane.memory()?)),
            // Each stream takes its own as it comes.
            Self::User(_) => Ok(None),
        }
    }

    /// Frames of no stream that came in at a port.
    pub(super) fn unmatched(&self, port: &str) -> Result<u64> {
        match self {
            Self::Xdp(plane) => Ok(plane.read_port(port)?.unmatched),
            Self::User(plane) => plane.unmatched(port),
        }
    }

    /// Resets a stream's functions; whether there is such a stream.
    pub(super) fn reset(&self, stream: &str) -> Result<bool> {
        match self {
            Self::Xdp(plane) => Ok(plane.reset(stream)?),
            Self::User(plane) => plane.reset(stream),
        }
    }

    /// Resets recovery functions whose time ran out without a packet.
    pub(super) fn expire(&self) -> Result<()> {
        match self {
            Self::Xdp(plane) => Ok(plane.expire()?),
            Self::User(plane) => plane.expire(),
        }
    }
}
