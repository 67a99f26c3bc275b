//! One measurement: a hop under a load on its CPUs, by all methods.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use onbeat_delay::probe::{Profile as Rates, Sample, Stretch};
use onbeat_probe::{EchoConfig, PingConfig, Reflector, ping};
use onbeat_realtime::Profile;
use onbeat_realtime::interrupt;
use onbeat_wire::stamp::{PACKET_LEN, PORT};

use super::matrix::Place;
use super::method::{Found, METHODS, Measuring};
use super::rig::{Hop, Rig};
use crate::load::{DutyLoad, DutyProfile, DutyReport, UdpReport, UdpSource, UdpTarget};
use crate::{Error, Result};

/// Ethernet, IPv4 and UDP around a probe.
const AROUND: usize = 42;
/// Octets of the shortest probe's frame.
pub(super) const LEAST_OCTETS: usize = AROUND + PACKET_LEN;
/// Octets of payload of the load's datagrams.
const LOAD_OCTETS: usize = 150;
/// How long an answer is waited for, in nanoseconds.
const TIMEOUT_NS: i64 = 5_000_000_000;
/// The sessions' number.
const SESSION: u16 = 1;
/// Sessions that find out whether there is a way, before it is given up.
const KNOCKS: u32 = 5;

/// What the hop has to do beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Nothing.
    Idle,
    /// A process that works as table 1 of the paper has it.
    Cpu,
    /// So many datagrams a second by another interface.
    Net(u32),
}

impl Load {
    /// Those of the paper's matrix.
    pub const ALL: [Load; 5] =
        [Load::Idle, Load::Cpu, Load::Net(1_000), Load::Net(5_000), Load::Net(20_000)];

    /// As figures name it.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Load::Idle => "idle".into(),
            Load::Cpu => "CPU load".into(),
            Load::Net(rate) => format!("network load, {rate}/s"),
        }
    }
}

/// How long, how often and how large.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    pub(super) rate: u64,
    pub(super) for_ns: u64,
    pub(super) octets: usize,
}

/// What was found.
pub(super) struct Cell {
    pub(super) hop: Hop,
    pub(super) cpus: &'static str,
    pub(super) load: Load,
    /// By the methods, in their order; `None` by one that sees nothing of the hop.
    pub(super) found: Vec<Option<Found>>,
    pub(super) sent: u64,
    /// What became of the load.
    pub(super) duty: Option<DutyReport>,
    pub(super) net: Option<UdpReport>,
}

pub(super) fn measure(rig: &Rig, place: &Place, load: Load, length: Length) -> Result<Cell> {
    let answering = Answering::start(rig, place)?;
    find_the_way(rig, &answering)?;
    let duty = (load == Load::Cpu)
        .then(|| DutyLoad::start([place.cpus.clone()], &DutyProfile::paper()))
        .transpose()?;
    let net = match load {
        Load::Net(rate) => Some(parallel(rig, rate)?),
        Load::Idle | Load::Cpu => None,
    };
    let begun: Vec<Option<Box<dyn Measuring>>> =
        METHODS.iter().map(|method| method.begin(rig)).collect::<Result<_>>()?;
    // XDP works on the CPU of who sends.
    let _there = (rig.hop == Hop::Relay)
        .then(|| Profile::default().on_cpus(place.cpus.clone()).enter())
        .transpose()?;
    let samples = probe(rig, &answering, length.rate as f64, length.for_ns as i64, length.octets)?;
    let end = |one: Option<Box<dyn Measuring>>| one.map(|one| one.end(&samples)).transpose();
    let found = begun.into_iter().map(end).collect::<Result<_>>()?;
    Ok(Cell {
        hop: rig.hop,
        cpus: place.name,
        load,
        found,
        sent: samples.len() as u64,
        duty: duty.and_then(|duty| duty.stop().into_iter().next()),
        net: net.map(UdpSource::stop),
    })
}

fn parallel(rig: &Rig, rate: u32) -> Result<UdpSource> {
    let target = UdpTarget { to: rig.sink()?, from: None, interface: Some("eth1".into()) };
    let rates = Rates::new(vec![Stretch::constant(rate.into(), i64::MAX)]);
    let start = || UdpSource::start(&target, rates, None, LOAD_OCTETS);
    rig.world.namespace("sender")?.run(start)?
}

/// A reflector at work.
struct Answering {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<onbeat_probe::Result<()>>>,
}

impl Answering {
    /// On the hop's CPUs where the hop is what answers, else outside.
    fn start(rig: &Rig, place: &Place) -> Result<Self> {
        let (station, address) = rig.reflector();
        let config = EchoConfig { addresses: vec![address], port: PORT, sessions: None, key: None };
        let mut reflector = rig.world.namespace(station)?.run(|| Reflector::open(&config))??;
        let at = reflector.addresses()[0];
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let _there = (rig.hop == Hop::Reflector)
            .then(|| Profile::default().on_cpus(place.cpus.clone()).enter())
            .transpose()?;
        let thread = thread::Builder::new()
            .name("lab-echo".into())
            .spawn(move || reflector.run(&|| theirs.load(Ordering::Relaxed)))
            .map_err(|error| Error::io("start a thread for a reflector", error))?;
        Ok(Self { at, stop, thread: Some(thread) })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A reflector that failed answered nothing, which was seen.
            let _ = thread.join();
        }
    }
}

/// Sends a probe until one is answered: addresses are resolved then.
fn find_the_way(rig: &Rig, answering: &Answering) -> Result<()> {
    for _ in 0..KNOCKS {
        let samples = probe(rig, answering, 1e3, 1_000_000, LEAST_OCTETS)?;
        if samples.iter().any(|sample| sample.answer.is_some()) {
            return Ok(());
        }
    }
    let seconds = f64::from(KNOCKS) * TIMEOUT_NS as f64 / 1e9;
    Err(Error::Timeout { what: format!("an answer by the {}", rig.hop.name()), seconds })
}

/// Sends probes from the sender, from where this thread runs.
fn probe(
    rig: &Rig,
    answering: &Answering,
    rate: f64,
    for_ns: i64,
    octets: usize,
) -> Result<Vec<Sample>> {
    let config = PingConfig {
        to: answering.at,
        from: None,
        profile: Rates::new(vec![Stretch::constant(rate, for_ns)]),
        count: None,
        sizes: vec![octets - AROUND],
        timeout_ns: TIMEOUT_NS,
        id: SESSION,
        key: None,
    };
    let mut samples = Vec::new();
    let send =
        || ping(&config, &|| interrupt::check().is_err(), &mut |sample, _| samples.push(*sample));
    rig.world.namespace("sender")?.run(send)??;
    interrupt::check()?;
    Ok(samples)
}

/// A probe as a frame has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) sequence: u32,
    /// It comes from the reflector.
    pub(super) answer: bool,
}

/// The number of a probe, or of an answer to one, that a frame is; `None`: it is neither.
pub(super) fn sequence(frame: &[u8]) -> Option<Numbered> {
    const IPV4: [u8; 2] = [8, 0];
    const NO_OPTIONS: u8 = 0x45;
    const UDP: u8 = 17;
    let is_udp =
        frame.get(12..14)? == IPV4 && *frame.get(14)? == NO_OPTIONS && *frame.get(23)? == UDP;
    let port = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let (from, to) = (port(34)?, port(36)?);
    let number = frame.get(AROUND..AROUND + 4)?.try_into().ok().map(u32::from_be_bytes)?;
    let numbered = |answer| Numbered { sequence: number, answer };
    match (is_udp, from == PORT, to == PORT) {
        (true, true, false) => Some(numbered(true)),
        (true, false, true) => Some(numbered(false)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_told_from_other_frames() {
        let mut frame = [0; LEAST_OCTETS];
        assert_eq!(sequence(&frame), None);
        (frame[12], frame[14], frame[23]) = (8, 0x45, 17);
        frame[36..38].copy_from_slice(&PORT.to_be_bytes());
        frame[45] = 7;
        assert_eq!(sequence(&frame), Some(Numbered { sequence: 7, answer: false }));
        assert_eq!(sequence(&frame[..45]), None);
        frame.copy_within(36..38, 34);
        assert_eq!(sequence(&frame), None, "from reflector to reflector");
        frame[37] = 0;
        assert_eq!(sequence(&frame), Some(Numbered { sequence: 7, answer: true }));
        frame[23] = 6;
        assert_eq!(sequence(&frame), None);
    }
}
