//! A server that receives little: connections that others open, abandon or read are never held against it.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, killpg};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use onbeat_irq_core::charge::Process;
use onbeat_irq_guard::Usage;

use crate::harness::{BOUND, RECEIVER, World};
use crate::hostile::possible;
use crate::innocent::{Trial, abandoned_connections};
use crate::kernel::turn;
use crate::reader::without_forks;

/// What the server does with the connections of a listener. It reads none of them.
#[derive(Debug, Clone, Copy)]
enum Use {
    Close,
    Keep,
    /// A child reads it.
    Fork,
    /// Another process receives it over a socket of the host, and reads it.
    Pass,
}

const USES: [Use; 4] = [Use::Close, Use::Keep, Use::Fork, Use::Pass];

/// The server, and the processes that read for it.
struct Server {
    pid: Pid,
    addresses: [SocketAddr; 4],
    process: Process,
}

impl Server {
    fn start(world: &World) -> Self {
        let _forks = without_forks();
        // The ledger takes the process that opens a listener for its owner: the server opens them, at these ports.
        let bind = |to: SocketAddr| TcpListener::bind(to).unwrap();
        let free = || USES.map(|_| bind((RECEIVER, 0).into()).local_addr().unwrap());
        let namespace = world.receiver.namespace();
        let addresses = namespace.run(free).unwrap();
        let (ready, mut started) = UnixStream::pair().unwrap();
        started.set_read_timeout(Some(BOUND)).unwrap();
        // SAFETY: the child uses no lock of the test, and is killed.
        let start = || match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                // SAFETY: numbers, and a string that ends with a 0.
                unsafe {
                    libc::setpgid(0, 0);
                    libc::prctl(libc::PR_SET_NAME, c"innocent".as_ptr());
                }
                let listeners = addresses.map(bind);
                (&ready).write_all(&[0]).unwrap();
                serve(&listeners)
            }
            ForkResult::Parent { child } => child,
        };
        let pid = namespace.run(start).unwrap();
        drop(ready);
        started.read_exact(&mut [0]).unwrap();
        let process = onbeat_irq::names::process(pid.as_raw().unsigned_abs()).unwrap();
        Self { pid, addresses, process }
    }

    fn connect(&self, world: &World, to: Use) -> TcpStream {
        let connect = || TcpStream::connect(self.addresses[to as usize]).unwrap();
        let stream = world.sender.namespace().run(connect).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = killpg(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

fn serve(listeners: &[TcpListener]) -> ! {
    let (to_other, others) = UnixDatagram::pair().unwrap();
    in_child(|| {
        loop {
            let connection = receive(others.as_raw_fd());
            in_child(|| read_all(connection));
            // SAFETY: its own descriptor.
            unsafe { libc::close(connection) };
        }
    });
    let mut waiting: Vec<_> = listeners
        .iter()
        .map(|one| libc::pollfd { fd: one.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    loop {
        // SAFETY: the list lives through the call.
        unsafe { libc::poll(waiting.as_mut_ptr(), waiting.len() as libc::nfds_t, -1) };
        for ((listener, entry), purpose) in listeners.iter().zip(&waiting).zip(USES) {
            if entry.revents == 0 {
                continue;
            }
            let Ok((connection, _)) = listener.accept() else { continue };
            let descriptor = connection.as_raw_fd();
            match purpose {
                Use::Close => continue,
                Use::Keep => {}
                Use::Fork => in_child(|| read_all(descriptor)),
                Use::Pass => {
                    let rights = [descriptor];
                    let message = [ControlMessage::ScmRights(&rights)];
                    let data = [IoSlice::new(&[0])];
                    let flags = MsgFlags::empty();
                    sendmsg::<()>(to_other.as_raw_fd(), &data, &message, flags, None).unwrap();
                }
            }
            // Its own descriptor stays open.
            std::mem::forget(connection);
        }
    }
}

/// Runs `what` in a child named "greedy".
fn in_child(what: impl FnOnce()) {
    // SAFETY: as for the server; the name ends with a 0.
    unsafe {
        if libc::fork() == 0 {
            libc::prctl(libc::PR_SET_NAME, c"greedy".as_ptr());
            what();
            libc::_exit(0);
        }
    }
}

fn read_all(connection: RawFd) {
    let mut room = [0_u8; 4096];
    // SAFETY: memory of this stack, with its length.
    while unsafe { libc::recv(connection, room.as_mut_ptr().cast(), room.len(), 0) } > 0 {}
}

/// The descriptor of a message.
fn receive(from: RawFd) -> RawFd {
    let mut room = nix::cmsg_space!(RawFd);
    let mut data = [0];
    let mut data = [IoSliceMut::new(&mut data)];
    let flags = MsgFlags::empty();
    let message = recvmsg::<()>(from, &mut data, Some(&mut room), flags).unwrap();
    let rights = message.cmsgs().unwrap().find_map(|one| match one {
        ControlMessageOwned::ScmRights(rights) => rights.first().copied(),
        _ => None,
    });
    rights.unwrap()
}

/// Sends as much as the connection accepts now.
fn fill(mut stream: &TcpStream) {
    match stream.write(&[0; 100_000]) {
        Ok(octets) => assert!(octets > 0),
        Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::EAGAIN as i32), "{error}"),
    }
}

#[test]
fn no_connection_of_others_limits_an_innocent_server() {
    let Some(_turn) = turn().filter(|_| possible()) else { return };
    let trial = Trial::with(|world, _| {
        let server = Server::start(world);
        let process = server.process;
        (server, process)
    });
    let server = &trial.innocent;
    let to = |purpose| server.addresses[purpose as usize];

    trial.beside("requests of connections at its listener", 20, || {
        abandoned_connections(&trial.world, to(Use::Keep), 100);
    });
    trial.beside("short connections", 400, || drop(server.connect(&trial.world, Use::Close)));
    trial.beside("connections with data that no process reads", 40, || {
        fill(&server.connect(&trial.world, Use::Keep));
    });

    for (what, purpose) in [
        ("a connection that a child reads", Use::Fork),
        ("a connection that it passes to another process", Use::Pass),
    ] {
        let stream = server.connect(&trial.world, purpose);
        trial.beside(what, 50, || fill(&stream));
        // The control: its reader is limited.
        trial.guard.wait_for(&format!("limit of the reader of {what}"), || {
            fill(&stream);
            let is_reader = |usage: &Usage| {
                usage.command == "greedy" && usage.process != trial.greedy() && usage.dropped > 0
            };
            trial.guard.usage().iter().any(is_reader)
        });
        trial.check().unwrap();
        drop(stream);
    }
    trial.guard.stop();
}
