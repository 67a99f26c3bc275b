//! Selection of frames for a data plane in user space.

use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{MapCore, MapFlags, ProgramMut};
use onbeat_frer::dataplane::{Changes, PortSpec};
use onbeat_frer::spec::{Egress, Member, Rewrite, SequenceTag, Stream};

use crate::error::{Context, Result};
use crate::plane::Plane;

/// Redirects frames of streams to AF_XDP sockets and passes all others to the network stack.
///
/// It identifies frames by the tables and the code of [`Plane`]: it is a plane that redirects frames instead
/// of processing them. Nothing of it is pinned: it ends with this process.
#[derive(Debug)]
pub struct Steering(Plane);

/// Frames received at a port that no socket received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SteeredPort {
    /// They match no stream, and were passed to the network stack.
    pub unmatched: u64,
    /// They match a stream, and were dropped: their receive queue has no socket.
    pub no_socket: u64,
}

impl Steering {
    /// Creates steering for up to `max_streams` streams, initially without ports.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open(max_streams: u32) -> Result<Self> {
        Plane::open_steering(max_streams).map(Self)
    }

    /// Attaches the program to the interface of a port, or replaces an own program there.
    ///
    /// # Errors
    /// A program of another owner is attached and `replace` is false; the driver does not support the
    /// requested mode.
    pub fn attach(&mut self, port: &PortSpec, replace: bool) -> Result<()> {
        self.0.attach(port, replace)
    }

    /// Detaches the program from the interface of a port.
    ///
    /// # Errors
    /// The kernel refuses.
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

    /// Redirects frames of streams received on a queue of a port to this socket.
    ///
    /// # Errors
    /// The kernel refuses. A socket of another queue is not detected.
    ///
    /// The port is not attached.
    pub fn deliver(&self, port: &str, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
        let sockets = self.0.sockets(port)?;
        sockets
            .update(&queue.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes(), MapFlags::ANY)
            .context(|| format!("assign queue {queue} of port {port:?} to a socket"))
    }

    /// Redirects the frames of `streams`, and only these. Port number `n` of the streams is `names[n]`;
    /// members on ports that are not attached here are ignored.
    ///
    /// # Errors
    /// The tables have no room; nothing has changed.
    pub fn apply(&mut self, names: &[String], streams: &[Stream]) -> Result<Changes> {
        let streams: Vec<_> =
            streams.iter().filter_map(|stream| self.identified(names, stream)).collect();
        self.0.apply(names, &streams)
    }

    /// Stops redirecting frames of the streams named in `gone` and redirects those of `streams`, like
    /// [`Plane::change`].
    ///
    /// # Errors
    /// Those of [`Steering::apply`].
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

    /// Returns the number of frames received at a port that match no stream, and of those of streams that had no socket.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read_port(&self, port: &str) -> Result<SteeredPort> {
        let counters = self.0.read_port(port)?;
        Ok(SteeredPort { unmatched: counters.unmatched, no_socket: counters.no_socket })
    }

    /// As [`Plane::attach_for_test`].
    #[doc(hidden)]
    pub fn attach_for_test(&mut self, port: &PortSpec) -> Result<()> {
        self.0.attach_for_test(port)
    }

    /// Returns the program of a port.
    #[doc(hidden)]
    pub fn program(&self, port: &str) -> Option<ProgramMut<'_>> {
        self.0.ingress(port)
    }

    /// Reduces a stream to its identifications on attached ports.
    fn identified(&self, names: &[String], stream: &Stream) -> Option<Stream> {
        let here = |member: &&Member| self.0.is_attached(&names[usize::from(member.port.0)]);
        let members: Vec<Member> = stream.members.iter().filter(here).map(identified).collect();
        // The egress port is irrelevant, but one is required.
        let port = members.first()?.port;
        let egress = vec![Egress { port, tag: SequenceTag::Keep, rewrite: Rewrite::default() }];
        let (name, generate, recover) = (stream.name.clone(), false, None);
        Some(Stream { name, members, generate, recover, egress })
    }
}

/// Reduces a member to its identification.
fn identified(member: &Member) -> Member {
    let mut identification = member.identification.clone();
    if let Some(rewrite) = identification.parameters_mut().rewrite {
        *rewrite = Rewrite::default();
    }
    Member { port: member.port, identification, individual: None }
}
