//! A minimal server of HTTP/1.1 for a few pages: one thread, a bounded number of connections, one response each.
//!
//! A connection costs at most [`REQUEST_LENGTH`] octets of a request and a reference to the page. It is closed when it does
//! not complete its request in time, or does not read. If all are in use, a new connection replaces the oldest one that
//! has not sent its request.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Maximum number of connections; further ones wait in the kernel's queue.
const CONNECTIONS: usize = 16;

/// Maximum length of a request in octets, with all headers.
const REQUEST_LENGTH: usize = 8192;

/// Longest time until a request is complete.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// Age from which on a connection without a complete request may be replaced.
const REPLACEABLE: Duration = Duration::from_millis(250);

/// Longest time of reading a response.
const RESPONSE_TIME: Duration = Duration::from_secs(10);

/// Longest time until the client closes its side. A socket that is closed with unread data discards the response.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// Time for which a page is reused.
const FRESH: Duration = Duration::from_secs(1);

/// The names by which clients may address the server. A web page can make a browser send requests to a name of its own
/// that leads here (DNS rebinding); the header `Host` then has this name.
#[derive(Debug, Clone, Default)]
pub struct HostNames(Vec<String>);

impl HostNames {
    /// Permits these names beside addresses and `localhost`.
    #[must_use]
    pub fn new(names: Vec<String>) -> Self {
        Self(names)
    }

    fn permit(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            // An IPv6 address.
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        name.parse::<IpAddr>().is_ok()
            || ["localhost"]
                .into_iter()
                .chain(self.0.iter().map(String::as_str))
                .any(|known| known.eq_ignore_ascii_case(name.strip_suffix('.').unwrap_or(name)))
    }
}

/// A page that is made for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// `/metrics`, in the text format of Prometheus.
    Metrics,
    /// `/events`: one server-sent event, after which the browser connects again.
    Events,
}

impl Page {
    const NUMBER: usize = 2;

    fn content(self) -> &'static str {
        match self {
            Self::Metrics => "text/plain; version=0.0.4; charset=utf-8",
            Self::Events => "text/event-stream",
        }
    }
}

/// A page, and when it was made.
#[derive(Debug)]
struct MadePage {
    at: Instant,
    octets: Rc<[u8]>,
    /// The same by gzip, once a client has requested it.
    compressed: Option<Rc<[u8]>>,
}

impl MadePage {
    fn compressed(&mut self) -> io::Result<Rc<[u8]>> {
        if let Some(compressed) = &self.compressed {
            return Ok(Rc::clone(compressed));
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&self.octets)?;
        let compressed: Rc<[u8]> = encoder.finish()?.into();
        Ok(Rc::clone(self.compressed.insert(compressed)))
    }
}

/// What a browser may load for the page: its own script and style, and events of this server.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page of people. It fetches nothing but `/events`.
const HTML: &str = include_str!("page.html");

/// Serves metrics at `/metrics`, and a page of people at `/`.
#[derive(Debug)]
pub struct MetricsServer<F> {
    listener: TcpListener,
    hosts: HostNames,
    make_page: F,
    /// By [`Page`].
    pages: [Option<MadePage>; Page::NUMBER],
    connections: Vec<Connection>,
}

impl<F: FnMut(Page) -> String> MetricsServer<F> {
    /// Creates a server whose pages `make_page` makes, each at most once a second.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(listener: TcpListener, hosts: HostNames, make_page: F) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, hosts, make_page, pages: [None, None], connections: Vec::new() })
    }

    /// Serves clients without end.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn run(&mut self) -> io::Result<std::convert::Infallible> {
        loop {
            self.wait()?;
            self.step(Instant::now());
        }
    }

    fn wait(&self) -> io::Result<()> {
        let now = Instant::now();
        let room_at = self.room_at().filter(|at| *at > now);
        let connections = self.connections.iter().map(|c| (c.stream.as_fd(), c.interest()));
        let listener = room_at.is_none().then(|| (self.listener.as_fd(), PollFlags::POLLIN));
        let mut fds: Vec<PollFd<'_>> =
            connections.chain(listener).map(|(fd, flags)| PollFd::new(fd, flags)).collect();
        let due = self.connections.iter().map(|c| c.deadline).chain(room_at).min();
        let timeout = due.map_or(PollTimeout::NONE, |due| {
            // Rounded up: an early wake-up would cause a second one.
            let left = due.saturating_duration_since(now) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn step(&mut self, now: Instant) {
        while self.room_at().is_none_or(|at| at <= now) {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.make_room();
                    self.connections.extend(Connection::new(stream, now));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // No client waits, or it is gone.
                Err(_) => break,
            }
        }
        let mut connections = std::mem::take(&mut self.connections);
        connections.retain_mut(|connection| {
            connection.step(now, |request| self.respond(now, request)) && now < connection.deadline
        });
        self.connections = connections;
    }

    /// When there is room for another connection, if all are in use: the oldest one may be replaced, or ends.
    fn room_at(&self) -> Option<Instant> {
        if self.connections.len() < CONNECTIONS {
            return None;
        }
        let replaceable = self.connections.iter().filter(|c| c.is_reading());
        let ends = self.connections.iter().map(|c| c.deadline);
        replaceable.map(|c| c.opened + REPLACEABLE).chain(ends).min()
    }

    /// Closes the oldest connection without a complete request, if all are in use.
    fn make_room(&mut self) {
        if self.connections.len() < CONNECTIONS {
            return;
        }
        let all = self.connections.iter().enumerate();
        let oldest = all.min_by_key(|(_, c)| (!c.is_reading(), c.opened)).map(|(number, _)| number);
        oldest.map(|number| self.connections.remove(number));
    }

    /// A page that is made now, or was within the last second.
    fn made(&mut self, now: Instant, page: Page, accepts_gzip: bool) -> Response {
        let slot = &mut self.pages[page as usize];
        let made = match slot.take().filter(|made| now < made.at + FRESH) {
            Some(made) => slot.insert(made),
            None => {
                let octets: Rc<[u8]> = Rc::from((self.make_page)(page).into_bytes());
                // The time after the collection, which may take seconds.
                slot.insert(MadePage { at: Instant::now(), octets, compressed: None })
            }
        };
        let compressed = accepts_gzip.then(|| made.compressed().ok()).flatten();
        match compressed {
            Some(octets) => {
                Response::encoded("200 OK", page.content(), "Content-Encoding: gzip\r\n", octets)
            }
            None => Response::new("200 OK", page.content(), Rc::clone(&made.octets)),
        }
    }

    fn respond(&mut self, now: Instant, request: &[u8]) -> Response {
        match Request::parse(request) {
            Err(status) => Response::error(status, "send a request such as GET /metrics HTTP/1.1"),
            Ok(request) if !request.host.is_none_or(|host| self.hosts.permit(host)) => {
                let remedy = "this name is not one of the server; use an address, or add the name with --host";
                Response::error("421 Misdirected Request", remedy)
            }
            Ok(request) if request.method != "GET" => {
                Response::error("405 Method Not Allowed", "only GET is served")
            }
            Ok(request) => match request.path {
                "/metrics" => self.made(now, Page::Metrics, request.accepts_gzip),
                "/events" => self.made(now, Page::Events, false),
                "/" => {
                    Response::new("200 OK", "text/html; charset=utf-8", Rc::from(HTML.as_bytes()))
                }
                _ => Response::error("404 Not Found", "the pages are / and /metrics"),
            },
        }
    }
}

/// The part of a request that matters here.
#[derive(Debug, PartialEq, Eq)]
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    /// `None`: of HTTP/1.0.
    host: Option<&'a str>,
    accepts_gzip: bool,
}

impl<'a> Request<'a> {
    /// Parses a request up to its empty line; the error is the status of the response.
    fn parse(request: &'a [u8]) -> Result<Self, &'static str> {
        const BAD: &str = "400 Bad Request";
        let text = std::str::from_utf8(request).map_err(|_| BAD)?;
        let mut lines = text.lines();
        let mut words = lines.next().ok_or(BAD)?.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(BAD);
        };
        if !["HTTP/1.1", "HTTP/1.0"].contains(&version) {
            return Err("505 HTTP Version Not Supported");
        }
        let headers = lines.filter_map(|line| line.split_once(':'));
        let values = |wanted: &'static str| {
            let named = headers.clone().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted));
            named.map(|(_, value)| value.trim())
        };
        let accepts_gzip = values("accept-encoding").any(permits_gzip);
        let mut hosts = values("host");
        let host = hosts.next();
        if host.is_none() && version == "HTTP/1.1" || hosts.next().is_some() {
            return Err(BAD);
        }
        let path = target.split('?').next().unwrap_or_default();
        Ok(Self { method, path, host, accepts_gzip })
    }
}

/// Whether a value of `Accept-Encoding` (RFC 9110, 12.5.3) permits gzip by its name.
fn permits_gzip(value: &str) -> bool {
    value.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        is_gzip && weight.is_none_or(|weight| weight.parse().is_ok_and(|weight: f32| weight > 0.0))
    })
}

/// A response, and the number of its octets that are written.
#[derive(Debug)]
struct Response {
    head: Vec<u8>,
    body: Rc<[u8]>,
    written: usize,
}

impl Response {
    fn new(status: &str, content: &str, body: Rc<[u8]>) -> Self {
        Self::encoded(status, content, "", body)
    }

    /// A response with a line on its encoding.
    fn encoded(status: &str, content: &str, encoding: &str, body: Rc<[u8]>) -> Self {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content}\r\n{encoding}Content-Length: {length}\r\nAllow: GET\r\n\
             Vary: Accept-Encoding\r\n\
             Cache-Control: no-store\r\nContent-Security-Policy: {POLICY}\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        );
        Self { head: head.into_bytes(), body, written: 0 }
    }

    fn error(status: &str, remedy: &str) -> Self {
        let text = format!("{status}: {remedy}\n");
        Self::new(status, "text/plain; charset=utf-8", Rc::from(text.into_bytes()))
    }

    /// Writes what the client takes; returns whether all is written.
    fn write(&mut self, mut stream: &TcpStream) -> io::Result<bool> {
        loop {
            let left = match self.head.get(self.written..).filter(|left| !left.is_empty()) {
                Some(left) => left,
                None => &self.body[self.written - self.head.len()..],
            };
            if left.is_empty() {
                return Ok(true);
            }
            match stream.write(left) {
                Ok(length) => self.written += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[derive(Debug)]
enum State {
    Reading(Vec<u8>),
    Writing(Response),
    /// Until the client closes its side.
    Closing,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    opened: Instant,
    deadline: Instant,
    state: State,
}

impl Connection {
    fn new(stream: TcpStream, now: Instant) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        let deadline = now + REQUEST_TIME;
        Some(Self { stream, opened: now, deadline, state: State::Reading(Vec::new()) })
    }

    fn is_reading(&self) -> bool {
        matches!(self.state, State::Reading(_))
    }

    fn interest(&self) -> PollFlags {
        match self.state {
            State::Writing(_) => PollFlags::POLLOUT,
            State::Reading(_) | State::Closing => PollFlags::POLLIN,
        }
    }

    /// Returns whether the connection stays.
    fn step(&mut self, now: Instant, mut respond: impl FnMut(&[u8]) -> Response) -> bool {
        loop {
            match &mut self.state {
                State::Reading(request) => {
                    let length = match receive(&mut self.stream, request) {
                        ReceiveOutcome::Data(length) => length,
                        ReceiveOutcome::Nothing => return true,
                        ReceiveOutcome::End => return false,
                    };
                    let end = find_end(request, length);
                    let response = match end {
                        Some(end) => respond(&request[..end]),
                        None if request.len() >= REQUEST_LENGTH => Response::error(
                            "431 Request Header Fields Too Large",
                            "a request has at most 8 KiB",
                        ),
                        None => continue,
                    };
                    // Collecting may take seconds.
                    self.deadline = now.max(Instant::now()) + RESPONSE_TIME;
                    self.state = State::Writing(response);
                }
                State::Writing(response) => match response.write(&self.stream) {
                    Ok(false) => return true,
                    Err(_) => return false,
                    Ok(true) => {
                        let _ = self.stream.shutdown(std::net::Shutdown::Write);
                        self.deadline = now.max(Instant::now()) + CLOSE_TIME;
                        self.state = State::Closing;
                    }
                },
                State::Closing => match receive(&mut self.stream, &mut Vec::new()) {
                    // What a client still sends is bounded by the deadline.
                    ReceiveOutcome::Data(_) | ReceiveOutcome::Nothing => return true,
                    ReceiveOutcome::End => return false,
                },
            }
        }
    }
}

enum ReceiveOutcome {
    Data(usize),
    Nothing,
    End,
}

/// Appends received octets.
fn receive(stream: &mut TcpStream, to: &mut Vec<u8>) -> ReceiveOutcome {
    let mut chunk = [0; 2048];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return ReceiveOutcome::End,
            Ok(length) => {
                to.extend_from_slice(&chunk[..length]);
                return ReceiveOutcome::Data(length);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return ReceiveOutcome::Nothing,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return ReceiveOutcome::End,
        }
    }
}

/// The end of the headers, if it is among the last `new` octets.
fn find_end(request: &[u8], new: usize) -> Option<usize> {
    let from = request.len().saturating_sub(new + 3);
    request[from..].windows(4).position(|octets| octets == b"\r\n\r\n").map(|at| from + at + 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    /// A server on a free port. Each line of a page has the number of the page.
    fn server(lines: usize) -> (SocketAddr, MetricsServer<impl FnMut(Page) -> String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut pages = 0;
        let page = move |page| {
            pages += 1;
            match page {
                Page::Metrics => format!("page {pages}\n").repeat(lines),
                Page::Events => format!("data: {pages}\n\n"),
            }
        };
        let hosts = HostNames::new(vec!["plant.example".to_owned()]);
        (address, MetricsServer::new(listener, hosts, page).unwrap())
    }

    /// Serves in another thread while the clients run.
    fn serve<T>(clients: impl FnOnce(SocketAddr) -> T) -> T {
        let (send, receive) = std::sync::mpsc::channel();
        // It ends with the process.
        std::thread::spawn(move || {
            let (address, mut server) = server(100_000);
            send.send(address).unwrap();
            server.run().map(|_| ()).unwrap();
        });
        clients(receive.recv().unwrap())
    }

    fn exchange(address: SocketAddr, request: &[u8]) -> String {
        let once = || {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(request)?;
            let mut response = String::new();
            stream.read_to_string(&mut response).map(|_| response)
        };
        // A client without a CPU for REQUEST_TIME may be replaced by another one.
        let response = (0..10).find_map(|_| once().ok().filter(|response| !response.is_empty()));
        response.expect("a response")
    }

    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n";

    #[test]
    fn the_page_and_errors_have_their_status() {
        serve(|address| {
            let response = exchange(address, GET);
            let (head, body) = response.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert!(
                head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
            );
            assert!(head.contains("\r\nContent-Length: 700000\r\n"), "{head}");
            assert_eq!((body.len(), body.lines().next()), (700_000, Some("page 1")));
            for (request, status) in [
                ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200"),
                ("GET /events HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200"),
                ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200"),
                ("GET /metrics HTTP/1.1\r\nhost: LOCALHOST:1\r\n\r\n", "200"),
                ("GET /metrics HTTP/1.1\r\nHost: plant.example\r\n\r\n", "200"),
                ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
                ("GET /metrics HTTP/1.1\r\nHost: localhost.evil.example:1\r\n\r\n", "421"),
                ("GET /metrics HTTP/1.1\r\nHost:\r\n\r\n", "421"),
                ("GET /metrics HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n", "400"),
                ("GET /metrics HTTP/1.1\r\n\r\n", "400"),
                ("GET /metrics HTTP/2\r\nHost: localhost\r\n\r\n", "505"),
                ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
                ("GET /etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
                ("\0\r\n\r\n", "400"),
                ("\r\n\r\n", "400"),
            ] {
                let response = exchange(address, request.as_bytes());
                assert!(
                    response.starts_with(&format!("HTTP/1.1 {status} ")),
                    "{request:?}: {response:.99}"
                );
            }
            assert!(exchange(address, &[b'x'; REQUEST_LENGTH]).starts_with("HTTP/1.1 431 "));
            let page = exchange(address, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert!(
                page.contains("\r\nContent-Security-Policy: default-src 'none';"),
                "{page:.400}"
            );
            assert!(page.ends_with("</html>\n"), "the whole page");
            let events = exchange(address, b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert!(events.contains("\r\nContent-Type: text/event-stream\r\n"), "{events}");
            assert!(events.contains("\r\n\r\ndata: "), "{events}");
        });
    }

    #[test]
    fn a_client_that_accepts_gzip_gets_the_same_page() {
        for (value, expected) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip; q=1.0", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000, br", false),
            ("*", false),
            ("x-gzip2", false),
            ("", false),
        ] {
            assert_eq!(permits_gzip(value), expected, "{value:?}");
        }
        let (_, mut server) = server(1000);
        let get =
            |encoding: &str| format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{encoding}\r\n");
        let now = Instant::now();
        let plain = server.respond(now, get("").as_bytes());
        let coded = server.respond(now, get("accept-encoding: br, gzip\r\n").as_bytes());
        let head = |response: &Response| String::from_utf8(response.head.clone()).unwrap();
        assert!(!head(&plain).contains("Content-Encoding"), "{}", head(&plain));
        let length = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", coded.body.len());
        assert!(head(&coded).contains(&length), "{}", head(&coded));
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&*coded.body).read_to_end(&mut text).unwrap();
        assert_eq!((text, coded.body.len() < 1000), (plain.body.to_vec(), true));
        let again = server.respond(now, get("Accept-Encoding: gzip\r\n").as_bytes());
        assert!(Rc::ptr_eq(&coded.body, &again.body), "compressed once");
    }

    #[test]
    fn a_hundred_scrapes_at_once_share_a_page() {
        serve(|address| {
            let clients: Vec<_> =
                (0..100).map(|_| std::thread::spawn(move || exchange(address, GET))).collect();
            let mut pages = std::collections::BTreeSet::new();
            for client in clients {
                let response = client.join().unwrap();
                assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response:.99}");
                pages.insert(response.lines().last().unwrap().to_owned());
            }
            assert!(pages.len() <= 50, "{} pages", pages.len());
        });
    }

    #[test]
    fn half_open_connections_do_not_keep_others_out() {
        serve(|address| {
            let mut half: Vec<TcpStream> = (0..100)
                .map(|_| {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.write_all(b"GET /metrics").unwrap();
                    stream
                })
                .collect();
            assert!(exchange(address, GET).starts_with("HTTP/1.1 200 OK\r\n"));
            // Each is closed without a response.
            for stream in &mut half {
                let _ = stream.read(&mut [0; 16]);
            }
        });
    }

    /// Time is passed in: the test waits for none.
    #[test]
    fn a_client_that_does_not_read_is_closed() {
        // More than the buffers of both sockets.
        let (address, mut server) = server(5_000_000);
        let mut slow: Vec<TcpStream> = (0..CONNECTIONS)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(GET).unwrap();
                stream
            })
            .collect();
        let start = Instant::now();
        let writes = |server: &MetricsServer<_>| {
            server.connections.iter().filter(|c| matches!(c.state, State::Writing(_))).count()
        };
        while writes(&server) < CONNECTIONS {
            assert!(start.elapsed() < Duration::from_secs(60));
            server.step(Instant::now());
        }
        let room_at = server.room_at().unwrap();
        assert!(room_at > start + REQUEST_TIME, "responses are not replaced");
        server.step(Instant::now() + RESPONSE_TIME);
        assert_eq!(server.connections.len(), 0);
        slow.clear();
    }
}
