//! One transfer by TCP, at full speed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt::pause_until;
use std::os::fd::AsRawFd;

use super::super::chain::Stations;
use super::super::cpu::Cpus;
use crate::worker::Worker;
use crate::{Error, Result};

/// Maximum time of a call.
const BOUND: Duration = Duration::from_secs(10);
/// Octets per call.
const CHUNK: usize = 1 << 17;

/// Result of a transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransferResult {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Received in Mbit/s, after the start.
    pub(super) rate: f64,
}

/// Sends from the talker to the listener for a fifth of `duration`, and then measures for `duration`.
pub(super) fn transfer(
    stations: &Stations,
    (from, to): (Ipv4Addr, SocketAddrV4),
    cpus: &Cpus,
    duration: Duration,
) -> Result<TransferResult> {
    let failed = |error| Error::io(format!("transfer by TCP to {to}"), error);
    let listen = || TcpListener::bind(to);
    let listener = stations.listener.namespace().run(listen)?.map_err(failed)?;
    let connect = || connect_from(from, to);
    let sender = stations.talker.namespace().run(connect)?.map_err(failed)?;
    let (receiver, _) = listener.accept().map_err(failed)?;
    sender.set_write_timeout(Some(BOUND)).map_err(failed)?;
    receiver.set_read_timeout(Some(BOUND)).map_err(failed)?;
    let received = Arc::new(AtomicU64::new(0));
    let (server, client) = {
        let _pinned = cpus.pin()?;
        let counter = Arc::clone(&received);
        (
            Worker::start("bench-server", move |stop| send(sender, stop))?,
            Worker::start("bench-client", move |_| receive(receiver, &counter))?,
        )
    };
    let now = || (now_ns(), received.load(Ordering::Relaxed));
    let (start_ns, duration_ns) = (now_ns(), duration.as_nanos() as u64);
    pause_until(start_ns + duration_ns / 5, || ())?;
    let (from_ns, before) = now();
    pause_until(from_ns + duration_ns, || ())?;
    let (to_ns, after) = now();
    let sent = server.stop().map_err(failed)?;
    client.stop().map_err(failed)?;
    let seconds = (to_ns - from_ns) as f64 / SECOND as f64;
    let rate = (after - before) as f64 * 8e-6 / seconds;
    Ok(TransferResult { sent, received: received.load(Ordering::Relaxed), rate })
}

/// Connects by the interface of an address: both chains have one in the same namespace.
fn connect_from(from: Ipv4Addr, to: SocketAddrV4) -> io::Result<TcpStream> {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    bind(fd.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0)))?;
    let stream = TcpStream::from(fd);
    // Bounds the call as well.
    stream.set_write_timeout(Some(BOUND))?;
    connect(stream.as_raw_fd(), &SockaddrIn::from(to))?;
    Ok(stream)
}

fn send(mut stream: TcpStream, stop: &AtomicBool) -> io::Result<u64> {
    let octets = vec![0x5a; CHUNK];
    let mut sent = 0;
    while !stop.load(Ordering::Acquire) {
        stream.write_all(&octets)?;
        sent += octets.len() as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(sent)
}

fn receive(mut stream: TcpStream, received: &AtomicU64) -> io::Result<()> {
    let mut octets = vec![0; CHUNK];
    loop {
        match stream.read(&mut octets) {
            Ok(0) => return Ok(()),
            Ok(len) => _ = received.fetch_add(len as u64, Ordering::Relaxed),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
