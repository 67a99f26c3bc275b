//! The management socket of ptp4l. Nothing here waits: a ptp4l that is stopped has no effect.

use std::fs;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use onbeat_wire::ptp::{GET_LEN, Get, ManagementId, Response};

use super::Round;

/// Management sockets of ptp4l, that for all rights first. linuxptp has the others since 4.0, and the directory since 4.4.
pub const SERVERS: [&str; 4] = ["/run/ptp/ptp4l", "/run/ptp/ptp4lro", "/run/ptp4l", "/run/ptp4lro"];

/// Maximum number of datagrams that one round reads, and of octets of each.
const MOST: usize = 64;
const LENGTH: usize = 1500;

/// A socket that is connected to ptp4l.
#[derive(Debug)]
pub struct PtpClient {
    socket: UnixDatagram,
    own: PathBuf,
    sequence: u16,
}

impl PtpClient {
    /// Connects to the first socket of `servers` with a process. Responses are sent to `own`, a path that no file has; one
    /// that a killed process left is replaced. Returns `None` if there is no socket.
    ///
    /// # Errors
    /// No process listens; `own` cannot be used.
    pub fn open(
        servers: impl IntoIterator<Item = PathBuf>,
        own: &Path,
    ) -> io::Result<Option<Self>> {
        let mut servers = servers.into_iter().filter(|path| path.exists()).peekable();
        if servers.peek().is_none() {
            return Ok(None);
        }
        match fs::remove_file(own) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixDatagram::bind(own)?;
        let client = Self { socket, own: own.to_owned(), sequence: 0 };
        client.socket.set_nonblocking(true)?;
        let mut connected = Ok(());
        for server in servers {
            connected = client.socket.connect(server);
            if connected.is_ok() {
                break;
            }
        }
        connected.map(|()| Some(client))
    }

    /// Requests the state of the clock.
    ///
    /// # Errors
    /// ptp4l has exited. One that reads nothing is no error.
    pub fn request(&mut self) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        for id in ManagementId::ALL {
            let mut octets = [0; GET_LEN];
            let get = Get { id, sequence: self.sequence };
            get.emit(&mut octets).map_err(io::Error::other)?;
            match self.socket.send(&octets) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => _ = sent?,
            }
        }
        Ok(())
    }

    /// Adds the responses to the last request that have arrived.
    pub fn receive(&mut self, round: &mut Round) {
        let mut octets = [0; LENGTH];
        for _ in 0..MOST {
            let Ok(length) = self.socket.recv(&mut octets) else { return };
            match Response::parse(&octets[..length]) {
                Ok(response) if response.sequence == self.sequence => round.add(&response),
                // Late, or none that was requested.
                _ => {}
            }
        }
    }
}

impl Drop for PtpClient {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.own);
    }
}

#[cfg(test)]
mod tests {
    use onbeat_testing::TemporaryDirectory;
    use onbeat_wire::ptp::PortState;

    use super::*;

    /// A response of ptp4l 3.1.1.
    const PORT: [u8; 72] = *b"\x0d\x02\0\x48\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x32\0\x9d\xff\xfe\xf7\x90\x5b\0\x01\0\x01\x04\x7f\
        \0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\x01\0\x14\xc0\x04\x32\0\x9d\xff\xfe\xf7\x90\x5b\0\x01\x09\0\x04bpv1\0";

    #[test]
    fn a_server_that_lies_stops_or_exits_does_not_block() {
        let directory = TemporaryDirectory::new("ptp-client");
        let (path, own) = (directory.file("ptp4l"), directory.file("own"));
        let open = || PtpClient::open([directory.file("none"), path.clone()], &own);
        assert!(open().unwrap().is_none() && !own.exists());
        let server = UnixDatagram::bind(&path).unwrap();
        let mut client = open().unwrap().unwrap();
        client.request().unwrap();
        let (length, from) = server.recv_from(&mut [0; LENGTH]).unwrap();
        assert_eq!((length, from.as_pathname()), (GET_LEN, Some(&*own)));
        let receive = |client: &mut PtpClient| {
            let mut round = Round::default();
            client.receive(&mut round);
            round.ports
        };
        assert_eq!(receive(&mut client), []);
        let mut late = PORT;
        late[31] = 0;
        for octets in [b"".as_slice(), b"\x0d\x02", &PORT[..60], &[0xff; 3000], &late, &PORT] {
            server.send_to(octets, &own).unwrap();
        }
        let ports = receive(&mut client);
        assert_eq!(ports.len(), 1);
        assert_eq!((ports[0].state, &*ports[0].interface), (PortState::Slave, "bpv1"));
        // It reads nothing: its queue is full soon.
        (0..100).for_each(|_| client.request().unwrap());
        drop(server);
        assert!(client.request().is_err());
        // No process listens.
        assert!(open().is_err());
        drop(client);
        // A killed process leaves its socket.
        fs::remove_file(&path).unwrap();
        let _server = UnixDatagram::bind(&path).unwrap();
        let _left = UnixDatagram::bind(&own).unwrap();
        open().unwrap().unwrap().request().unwrap();
        assert!(!own.exists());
    }
}
