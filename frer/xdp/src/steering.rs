//! What stands in front of a data plane in user space.

use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, ProgramMut};
use onbeat_frer::dataplane::{Changes, PortSpec};
use onbeat_frer::spec::{Egress, Member, Rewrite, SequenceTag, Stream};

use crate::error::{Context, Result};
use crate::plane::Plane;

/// Hands frames of streams to AF_XDP sockets, and leaves all others to the network stack.
///
/// It identifies frames by the tables and the code of [`Plane`], of which it is one that gives frames
/// away instead of doing something with them. Nothing of it is pinned: it ends with this process.
#[derive(Debug)]
pub struct Steering(Plane);

impl Steering {
    /// One for up to `max_streams` streams, at first without ports.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn open(max_streams: u32) -> Result<Self> {
        Plane::open_steering(max_streams).map(Self)
    }

    /// Puts its program on a port's interface, or a new one in place of ours that runs there.
    ///
    /// # Errors
    /// A foreign program, unless `replace`; a driver that cannot.
    pub fn attach(&mut self, port: &PortSpec, replace: bool) -> Result<()> {
        self.0.attach(port, replace)
    }

    /// Takes the program off a port's interface.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn detach(&mut self, port: &str) -> Result<()> {
        self.0.detach(port)
    }

    /// As [`Plane::runs`].
    #[must_use]
    pub fn runs(&self, port: &str) -> bool {
        self.0.runs(port)
    }

    /// As [`Plane::running_program`].
    #[must_use]
    pub fn running_program(&self, port: &str) -> Option<u32> {
        self.0.running_program(port)
    }

    /// Has frames of streams that come in by a receive queue of a port go to this socket.
    ///
    /// # Errors
    /// What the kernel refuses: a socket of another queue is none of its errors.
    ///
    /// # Panics
    /// Where the port is not attached.
    pub fn deliver(&self, port: &str, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
        let sockets = self.0.sockets(port)?;
        sockets
            .update(&queue.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .context(|| format!("hand queue {queue} of port {port:?} to a socket"))
    }

    /// Makes `streams` those whose frames are handed over. Port number `n` of the streams is
    /// `names[n]`; members on ports that are not attached here are not looked at.
    ///
    /// # Errors
    /// What the tables have no room for; nothing has changed then.
    pub fn apply(&mut self, names: &[String], streams: &[Stream]) -> Result<Changes> {
        let streams: Vec<_> =
            streams.iter().filter_map(|stream| self.identified(names, stream)).collect();
        self.0.apply(names, &streams)
    }

    /// Has frames of the streams named in `gone` no longer be handed over, and those of `streams`, as
    /// [`Plane::change`] does.
    ///
    /// # Errors
    /// As [`Steering::apply`].
    pub fn change(
        &mut self,
        names: &[String],
        gone: &[&str],
        streams: &[Stream],
    ) -> Result<Changes> {
        let mut gone = gone.to_vec();
        let mut new = Vec::new();
        for stream in streams {
            match self.identified(names, stream) {
                Some(stream) => new.push(stream),
                None => gone.push(&stream.name),
            }
        }
        self.0.change(names, &gone, &new)
    }

    /// Frames of no stream that came in at a port.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn unmatched(&self, port: &str) -> Result<u64> {
        Ok(self.0.read_port(port)?.unmatched)
    }

    /// As [`Plane::attach_for_test`].
    #[doc(hidden)]
    pub fn attach_for_test(&mut self, port: &PortSpec) -> Result<()> {
        self.0.attach_for_test(port)
    }

    /// The program of a port.
    #[doc(hidden)]
    pub fn program(&self, port: &str) -> Option<ProgramMut<'_>> {
        self.0.ingress(port)
    }

    /// What is needed of a stream to know its frames.
    fn identified(&self, names: &[String], stream: &Stream) -> Option<Stream> {
        let here = |member: &&Member| self.0.is_attached(&names[usize::from(member.port.0)]);
        let members: Vec<Member> = stream.members.iter().filter(here).map(identified).collect();
        // Where a frame leaves is not asked, but it has to leave somewhere.
        let port = members.first()?.port;
        let egress = vec![Egress { port, tag: SequenceTag::Keep, rewrite: Rewrite::default() }];
        let (name, generate, recover) = (stream.name.clone(), false, None);
        Some(Stream { name, members, generate, recover, egress })
    }
}

/// The member, with nothing but which frames are its.
fn identified(member: &Member) -> Member {
    let mut identification = member.identification.clone();
    if let Some(rewrite) = identification.parameters_mut().rewrite {
        *rewrite = Rewrite::default();
    }
    Member { port: member.port, identification, individual: None }
}
