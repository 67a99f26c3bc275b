//! One measurement: a hop with its CPUs and load, by all methods.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use onbeat_delay::probe::{Profile as Rates, ProfileSegment, Sample};
use onbeat_probe::{EchoConfig, PingConfig, Reflector, ping};
use onbeat_realtime::Profile;
use onbeat_realtime::interrupt;
use onbeat_wire::stamp::PORT;

use super::frame::{AROUND, LEAST_OCTETS};
use super::measurement::{HopCpus, Length, Load, Measurement, MethodResult};
use super::method::METHODS;
use super::rig::{Hop, Rig};
use crate::load::{DutyLoad, DutyProfile, DutyReport, UdpReport, UdpSource, UdpTarget};
use crate::worker::Worker;
use crate::{Error, Result};

/// UDP payload of the load's datagrams, in octets.
const LOAD_OCTETS: usize = 150;
/// Maximum wait for a reply, in nanoseconds.
const TIMEOUT_NS: i64 = 5_000_000_000;
/// Session number.
const SESSION: u16 = 1;
/// Maximum number of sessions until the first reply.
const KNOCKS: u32 = 5;

/// Result of one measurement.
pub(super) struct Cell {
    pub(super) hop: Hop,
    pub(super) cpus: &'static str,
    pub(super) load: Load,
    /// Results in the order of the methods; `None`: the method does not see packets of the hop.
    pub(super) found: Vec<Option<MethodResult>>,
    pub(super) sent: u64,
    /// Report of the load.
    pub(super) duty: Option<DutyReport>,
    pub(super) net: Option<UdpReport>,
}

pub(super) fn measure(rig: &Rig, place: &HopCpus, load: Load, length: Length) -> Result<Cell> {
    let answering = ReflectorThread::start(rig, place)?;
    find_the_way(rig, &answering)?;
    let duty = (load == Load::Cpu)
        .then(|| DutyLoad::start([place.cpus.clone()], &DutyProfile::paper()))
        .transpose()?;
    let net = match load {
        Load::Net(rate) => Some(parallel(rig, rate)?),
        Load::Idle | Load::Cpu => None,
    };
    let begun: Vec<Option<Box<dyn Measurement>>> =
        METHODS.iter().map(|method| method.begin(rig)).collect::<Result<_>>()?;
    // XDP runs on the CPU of the sender.
    let _there = (rig.hop == Hop::Relay)
        .then(|| Profile::default().on_cpus(place.cpus.clone()).enter())
        .transpose()?;
    let samples = probe(rig, &answering, length.rate as f64, length.for_ns as i64, length.octets)?;
    let end = |one: Option<Box<dyn Measurement>>| one.map(|one| one.end(&samples)).transpose();
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
    let rates = Rates::new(vec![ProfileSegment::constant(rate.into(), i64::MAX)]);
    let start = || UdpSource::start(&target, rates, None, LOAD_OCTETS);
    rig.world.namespace("sender")?.run(start)?
}

/// A running reflector.
struct ReflectorThread {
    at: SocketAddr,
    /// The error of a failed reflector is ignored: the probes show missing replies.
    _worker: Worker<onbeat_probe::Result<()>>,
}

impl ReflectorThread {
    /// Starts it on the hop's CPUs if the hop is the reflector, else on the other CPUs.
    fn start(rig: &Rig, place: &HopCpus) -> Result<Self> {
        let (station, address) = rig.reflector();
        let config = EchoConfig { addresses: vec![address], port: PORT, sessions: None, key: None };
        let mut reflector = rig.world.namespace(station)?.run(|| Reflector::open(&config))??;
        let at = reflector.addresses()[0];
        let _there = (rig.hop == Hop::Reflector)
            .then(|| Profile::default().on_cpus(place.cpus.clone()).enter())
            .transpose()?;
        let worker =
            Worker::start("lab-echo", move |stop| reflector.run(&|| stop.load(Ordering::Relaxed)))?;
        Ok(Self { at, _worker: worker })
    }
}

/// Sends probes until one is answered: addresses are resolved then.
fn find_the_way(rig: &Rig, answering: &ReflectorThread) -> Result<()> {
    for _ in 0..KNOCKS {
        let samples = probe(rig, answering, 1e3, 1_000_000, LEAST_OCTETS)?;
        if samples.iter().any(|sample| sample.answer.is_some()) {
            return Ok(());
        }
    }
    let seconds = f64::from(KNOCKS) * TIMEOUT_NS as f64 / 1e9;
    Err(Error::Timeout { what: format!("reply by the {}", rig.hop.name()), seconds })
}

/// Sends probes from the sender, with the affinity of this thread.
fn probe(
    rig: &Rig,
    answering: &ReflectorThread,
    rate: f64,
    for_ns: i64,
    octets: usize,
) -> Result<Vec<Sample>> {
    let config = PingConfig {
        to: answering.at,
        from: None,
        profile: Rates::new(vec![ProfileSegment::constant(rate, for_ns)]),
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
