//! Common functions of delay tests: captures, results, and a router to measure.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::ops::Range;
use std::process::{Child, Command, Stdio};

use onbeat_delay::capture::{LinkType, Writer};
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_testing::{TemporaryDirectory, require_that};
use serde_json::Value;

use super::json::{can_validate, cell, validate};
use super::{BOUND, run, wait_for};

/// A directory that is removed with the test.
pub(crate) struct Directory(TemporaryDirectory);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        Self(TemporaryDirectory::new(&format!("delay-{name}")))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.file(name).to_str().unwrap().to_owned()
    }

    /// Writes frames with their times in nanoseconds.
    pub(crate) fn capture(&self, name: &str, packets: &[(i64, Vec<u8>)]) -> String {
        let path = self.path(name);
        let file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
        let mut writer = Writer::new(file, LinkType::ETHERNET).unwrap();
        for (time_ns, octets) in packets {
            writer.write(*time_ns, octets, octets.len() as u32).unwrap();
        }
        writer.finish().unwrap();
        path
    }
}

/// Exit status and result of a command.
pub(crate) fn result(arguments: &[&str]) -> (i32, Value) {
    let ran = run(&[arguments, &["--json", "--quiet"]].concat());
    assert_eq!(ran.err, "", "{arguments:?}");
    let result = serde_json::from_str(&ran.out).unwrap();
    if can_validate() {
        validate(&ran.out);
    }
    (ran.code, result)
}

pub(crate) fn value(result: &Value, figure: &str) -> f64 {
    result["figures"][figure]["value"].as_f64().unwrap_or(f64::NAN)
}

pub(crate) fn packets(result: &Value, what: &str) -> u64 {
    cell(result, "packets", what, "number") as u64
}

/// A router between namespaces.
pub(crate) struct Router {
    pub(crate) handle: Handle,
    /// The hosts at both sides, each with `eth0`, 10.9.1.2 and 10.9.2.2.
    pub(crate) sender: Handle,
    pub(crate) receiver: Handle,
    pub(crate) writer: UdpSocket,
    pub(crate) reader: UdpSocket,
}

impl Router {
    /// Sender and receiver resolve each other's addresses.
    pub(crate) fn new() -> Self {
        let [sender, router, receiver] =
            [(); 3].map(|()| Handle::in_namespace(&Namespace::with_loopback().unwrap()).unwrap());
        let address = |net, host| IpAddr::V4(Ipv4Addr::new(10, 9, net, host));
        for (net, end, near) in [(1, &sender, "eth0"), (2, &receiver, "eth1")] {
            let far = VethEnd::new(near).namespace(router.namespace());
            end.create_veth(&VethEnd::new("eth0"), &far).unwrap();
            for (handle, name, host) in [(end, "eth0", 2), (&router, near, 1)] {
                handle.set_ipv6(name, false).unwrap();
                handle.add_address(name, address(net, host), 24).unwrap();
                handle.set_up(name).unwrap();
            }
            end.wait_carrier("eth0", BOUND).unwrap();
        }
        router.set_forwarding(true).unwrap();
        route(&sender, address(1, 1));
        route(&receiver, address(2, 1));

        let bind = |handle: &Handle, at| handle.namespace().run(move || UdpSocket::bind((at, 0)));
        let reader = bind(&receiver, address(2, 2)).unwrap().unwrap();
        reader.set_read_timeout(Some(BOUND)).unwrap();
        let writer = bind(&sender, address(1, 2)).unwrap().unwrap();
        writer.connect(reader.local_addr().unwrap()).unwrap();
        let router = Self { handle: router, sender, receiver, writer, reader };
        router.pass(b"first");
        router
    }

    /// Sends a datagram, and waits until the receiver has received it.
    pub(crate) fn pass(&self, octets: &[u8]) {
        self.writer.send(octets).unwrap();
        self.reader.recv(&mut [0; 16]).unwrap();
    }

    /// Two captures of datagrams with these numbers, and of a few others.
    pub(crate) fn captured(&self, directory: &Directory, numbers: Range<u32>) -> [String; 2] {
        self.captured_while(directory, || numbers.for_each(|n| self.pass(&n.to_be_bytes())))
    }

    /// Two captures of the datagrams that `send` sends, and of a few others: on both sides of the router.
    pub(crate) fn captured_while(&self, directory: &Directory, send: impl FnOnce()) -> [String; 2] {
        self.captured_at(directory, [(&self.handle, "eth0"), (&self.handle, "eth1")], send)
    }

    /// The same, at these interfaces: the first of a packet's arrivals, the second of its departures.
    pub(crate) fn captured_at(
        &self,
        directory: &Directory,
        [arrivals, departures]: [(&Handle, &str); 2],
        send: impl FnOnce(),
    ) -> [String; 2] {
        let length = |path: &str| fs::metadata(path).map_or(0, |file| file.len());
        // The departures first: packets that only this capture contains are not counted as lost.
        let start = |(handle, interface), name| {
            let path = directory.path(name);
            let tcpdump = tap(handle, interface, &path);
            wait_for("a tap", || {
                self.pass(b"probe");
                length(&path) > 100
            });
            (tcpdump, path)
        };
        let departures = start(departures, "out.pcap");
        let taps = [start(arrivals, "in.pcap"), departures];
        send();
        self.pass(b"the last one");
        wait_for("the last packet in both captures", || {
            taps.iter().all(|(_, path)| {
                let text = fs::read(path).unwrap_or_default();
                text.windows(12).any(|octets| octets == b"the last one")
            })
        });
        taps.map(|(mut tcpdump, path)| {
            tcpdump.kill().unwrap();
            tcpdump.wait().unwrap();
            path
        })
    }
}

/// Captures packets of an interface; ready when it has captured a packet.
pub(crate) fn tap(host: &Handle, interface: &str, path: &str) -> Child {
    let mut tcpdump = Command::new("tcpdump");
    let nano = ["-i", interface, "-n", "-U", "--time-stamp-precision=nano", "-w", path, "udp"];
    tcpdump.args(nano).stdin(Stdio::null()).stderr(Stdio::null());
    host.namespace().start_in(&mut tcpdump).spawn().unwrap()
}

pub(crate) fn can_capture() -> bool {
    let tcpdump = Command::new("tcpdump").arg("--version").output().is_ok();
    super::can(&[]) && require_that(tcpdump, "tcpdump")
}

/// A default route.
pub(crate) fn route(handle: &Handle, by: IpAddr) {
    let mut ip = Command::new("ip");
    ip.args(["route", "add", "default", "via", &by.to_string()]);
    let status = handle.namespace().start_in(&mut ip).status().unwrap();
    assert!(status.success(), "ip route");
}
