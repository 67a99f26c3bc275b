//! EtherCAT over the port: ethercrab brings emulated devices to OP and exchanges process data.
//!
//! ```text
//!   near: "p0" --------- far: "f0"
//!   ethercrab            devices in a row, on a plain packet socket
//!   adapter
//!   Port
//! ```

#[path = "../../examples/ethercat/adapter.rs"]
mod adapter;
#[path = "../../examples/ethercat/device.rs"]
mod device;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::Cable;
use adapter::{Bus, ETHER_TYPE};
use device::Segment;
use device::sii::{NAME, PROCESS_DATA, PRODUCT, VENDOR};
use ethercrab::error::{Error as EthercatError, TimeoutError};
use ethercrab::subdevice_group::Op;
use ethercrab::{
    DefaultLock, MainDevice, MainDeviceConfig, PduLoop, PduStorage, SubDeviceGroup, Timeouts,
};
use onbeat_link::{Backend, Port, PortOptions};
use onbeat_testing::RawSocket;
use onbeat_testing::{Feature as Needs, require_all};
use proptest::prelude::*;

/// Longest that anything here may take: a hang ends as a failure.
const BOUND: Duration = Duration::from_secs(120);
/// Cycles of process data, and the length of one if the machine is fast enough.
const CYCLES: u32 = 1_000;
const CYCLE_NS: u64 = 250_000;
/// Devices at most, and octets of process data at most.
type Group = SubDeviceGroup<4, 32, DefaultLock, Op>;
type Storage = PduStorage<4, { PduStorage::element_size(512) }>;

/// Devices at the far end of a cable, until dropped.
struct Devices {
    answer: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Devices {
    fn start(cable: &Cable, count: usize) -> Self {
        let socket = RawSocket::open_for(&cable.far, "f0", ETHER_TYPE.0);
        let mut segment = Segment::new(count);
        let answer = Arc::new(AtomicBool::new(true));
        let end = Arc::new(AtomicBool::new(false));
        let flags = (answer.clone(), end.clone());
        let thread = thread::spawn(move || {
            while !flags.1.load(Ordering::Relaxed) {
                let Some(mut frame) = socket.receive(Duration::from_millis(50)) else { continue };
                if flags.0.load(Ordering::Relaxed) && segment.process(&mut frame) {
                    socket.send(&frame);
                }
            }
        });
        Self { answer, end, thread: Some(thread) }
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))), "the devices failed");
    }
}

/// A main device that gives up on a frame after `pdu`.
fn main_device(pdus: PduLoop<'_>, pdu: Duration) -> MainDevice<'_> {
    // Others may want the CPUs: nothing but a frame that never comes may end a wait.
    let timeouts = Timeouts { pdu, state_transition: BOUND, eeprom: BOUND, ..Timeouts::default() };
    MainDevice::new(pdus, timeouts, MainDeviceConfig::default())
}

/// Runs a future to its end, or fails.
fn run<F: Future>(bus: &mut Bus<'_>, future: F) -> F::Output {
    let deadline = Instant::now() + BOUND;
    let mut future = pin!(future);
    let bounded = poll_fn(|context| {
        assert!(Instant::now() < deadline, "neither an answer nor a timeout");
        future.as_mut().poll(context)
    });
    bus.run(bounded).unwrap()
}

/// Finds the devices and brings them to OP.
fn bring_up(bus: &mut Bus<'_>, main: &MainDevice<'_>, count: usize) -> Group {
    let group = run(bus, main.init_single_group::<4, 32>(|| 0)).unwrap();
    assert_eq!(group.len(), count);
    let group = run(bus, group.into_op(main)).unwrap();
    for (serial, device) in (1..).zip(group.iter(main)) {
        let identity = device.identity();
        assert_eq!((identity.vendor_id, identity.product_id), (VENDOR, PRODUCT));
        assert_eq!((identity.serial, device.name()), (serial, NAME));
        assert_eq!(device.inputs_raw().len(), PROCESS_DATA);
        assert_eq!(device.outputs_raw().len(), PROCESS_DATA);
    }
    group
}

/// One cycle: sends new outputs; the inputs result from those of the previous cycle.
fn cycle(bus: &mut Bus<'_>, main: &MainDevice<'_>, group: &Group, number: u32) {
    let outputs = |number: u32, device: u32| {
        let pattern = number.wrapping_mul(0x9e37_79b9).rotate_left(8 * device);
        if number == 0 { [0; PROCESS_DATA] } else { pattern.to_le_bytes() }
    };
    for (i, device) in (0..).zip(group.iter(main)) {
        device.outputs_raw_mut().copy_from_slice(&outputs(number, i));
    }
    let response = run(bus, group.tx_rx(main)).unwrap();
    // One for reading, two for writing, of each device.
    assert_eq!(usize::from(response.working_counter), 3 * group.len());
    assert!(response.all_op(), "{:?}", response.subdevice_states);
    for (i, device) in (0..).zip(group.iter(main)) {
        let expected = outputs(number - 1, i).map(|octet| !octet);
        assert_eq!(device.inputs_raw()[..], expected, "device {i}, cycle {number}");
    }
}

fn open(cable: &Cable, backend: Backend) -> Box<dyn Port> {
    let options = PortOptions { ether_types: vec![ETHER_TYPE], ..PortOptions::default() };
    onbeat_link::open(backend, cable.near.namespace(), "p0", options).unwrap()
}

/// The requirements of every back end.
fn devices_exchange_process_data(backend: Backend) {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    for count in [1, 2] {
        let mut port = open(&cable, backend);
        let _devices = Devices::start(&cable, count);
        let storage = Storage::new();
        let (tx, rx, pdus) = storage.try_split().unwrap();
        let main = main_device(pdus, BOUND);
        let mut bus = Bus::new(port.as_mut(), tx, rx).unwrap();
        let group = bring_up(&mut bus, &main, count);
        let mut next = bus.now();
        for number in 1..=CYCLES {
            next = next.after(CYCLE_NS);
            bus.sleep_until(next).unwrap();
            assert!(bus.now() >= next);
            cycle(&mut bus, &main, &group, number);
        }
        assert_eq!(bus.strays(), 0);
        drop(bus);
        let counted = port.diagnostics().unwrap();
        assert_eq!(counted.sent, counted.received, "one answer for each frame");
        assert!(counted.sent > u64::from(CYCLES), "{counted}");
    }
}

#[test]
fn over_a_packet_socket() {
    devices_exchange_process_data(Backend::Packet);
}

#[test]
fn over_af_xdp() {
    devices_exchange_process_data(Backend::Xsk);
}

#[test]
fn over_xdp() {
    devices_exchange_process_data(Backend::Xdp);
}

#[test]
fn a_lost_frame_is_a_timeout() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let mut port = open(&cable, Backend::Packet);
    let devices = Devices::start(&cable, 1);
    // One place for a frame.
    let storage = PduStorage::<1, { PduStorage::element_size(512) }>::new();
    let (tx, rx, pdus) = storage.try_split().unwrap();
    let main = main_device(pdus, Duration::from_secs(2));
    let mut bus = Bus::new(port.as_mut(), tx, rx).unwrap();
    let group = bring_up(&mut bus, &main, 1);
    cycle(&mut bus, &main, &group, 1);

    devices.answer.store(false, Ordering::Relaxed);
    let result = run(&mut bus, group.tx_rx(&main));
    assert_eq!(result.unwrap_err(), EthercatError::Timeout(TimeoutError::Pdu));
    // Again, and not that the only place is still held for the frame before.
    let result = run(&mut bus, group.tx_rx(&main));
    assert_eq!(result.unwrap_err(), EthercatError::Timeout(TimeoutError::Pdu));

    devices.answer.store(true, Ordering::Relaxed);
    cycle(&mut bus, &main, &group, 2);

    // Nor is a cable that was pulled out an error of the port: it may be plugged in again.
    drop(devices);
    cable.far.set_down("f0").unwrap();
    cable.near.wait_for("p0", "without carrier", BOUND, |link| !link.carrier).unwrap();
    let result = run(&mut bus, group.tx_rx(&main));
    assert_eq!(result.unwrap_err(), EthercatError::Timeout(TimeoutError::Pdu));

    cable.near.set_down("p0").unwrap();
    assert!(bus.run(group.tx_rx(&main)).is_err(), "the interface is off");
}

#[test]
fn foreign_frames_do_not_stop_the_port() {
    if !require_all(&[Needs::Root, Needs::Veth]) {
        return;
    }
    let cable = Cable::new();
    let mut port = open(&cable, Backend::Packet);
    let _devices = Devices::start(&cable, 1);
    let other = RawSocket::open_for(&cable.far, "f0", ETHER_TYPE.0);
    let storage = Storage::new();
    let (tx, rx, pdus) = storage.try_split().unwrap();
    let main = main_device(pdus, BOUND);
    let mut bus = Bus::new(port.as_mut(), tx, rx).unwrap();
    let group = bring_up(&mut bus, &main, 1);

    let whole = frame(1, 0, 0, &[0; 20]);
    let truncated = (0..whole.len()).map(|length| {
        let mut frame = whole[..length.max(14)].to_vec();
        frame[6] |= 0x02;
        frame
    });
    for (number, octets) in (1..).zip(truncated) {
        other.send(&octets);
        cycle(&mut bus, &main, &group, number);
    }
    assert!(bus.strays() > 0);
}

/// A frame with one datagram, as ethercrab sends it.
fn frame(command: u8, address: u16, register: u16, data: &[u8]) -> Vec<u8> {
    let (length, [low, high]) = (data.len() as u8, address.to_le_bytes());
    let [register_low, register_high] = register.to_le_bytes();
    [
        &[0xff; 6][..],
        &[0x10; 6],
        &[0x88, 0xa4, length + 12, 0x10],
        &[command, 0, low, high, register_low, register_high, length, 0, 0, 0],
        data,
        &[0, 0],
    ]
    .concat()
}

/// The content of a register of the first device, and the working counter.
fn read(segment: &mut Segment, register: u16) -> (u8, u8) {
    let mut frame = frame(1, 0, register, &[0]);
    assert!(segment.process(&mut frame));
    (frame[26], frame[27])
}

#[test]
fn invalid_requests_are_refused() {
    let mut segment = Segment::new(1);
    let request = |segment: &mut Segment, state| {
        assert!(segment.process(&mut frame(2, 0, 0x0120, &[state, 0])));
        (read(segment, 0x0130).0, read(segment, 0x0134).0)
    };
    assert_eq!(request(&mut segment, 8), (0x11, 0x11), "from INIT to OP");
    assert_eq!(request(&mut segment, 2), (0x11, 0x11), "the error is not acknowledged");
    assert_eq!(request(&mut segment, 0x12), (0x02, 0));
    assert_eq!(request(&mut segment, 4), (0x12, 0x1d), "the sync managers are not set up");
    assert_eq!(read(&mut segment, 0x0900), (0, 0), "there is no distributed clock");
    assert_eq!(read(&mut segment, 0x1000), (0, 0), "no sync manager is on");
}

#[test]
fn only_the_addressed_device_answers() {
    let mut segment = Segment::new(2);
    let counter = |segment: &mut Segment, command, address| {
        let mut frame = frame(command, address, 0x0000, &[0]);
        assert!(segment.process(&mut frame));
        assert_eq!(frame[6], 0x12, "the first device sets the local bit");
        (frame[18], frame[27])
    };
    assert_eq!(counter(&mut segment, 7, 0), (2, 2), "all, counted up");
    assert_eq!(counter(&mut segment, 1, 0xffff), (1, 1), "the second by its position");
    assert_eq!(counter(&mut segment, 1, 0xfffe), (0, 0), "a third is not there");
    assert_eq!(counter(&mut segment, 4, 0x1000), (0, 0), "no station has this address yet");
}

proptest! {
    #[test]
    fn any_octets_are_handled(
        mut octets in prop::collection::vec(any::<u8>(), 0..80),
        command in 0_u8..16,
        register in prop::sample::select(vec![0_u16, 0x120, 0x500, 0x600, 0x800, 0x1000, 0xffff]),
    ) {
        let mut segment = Segment::new(2);
        segment.process(&mut octets);
        segment.process(&mut frame(command, 0, register, &octets));
        let mut cut = frame(command, 0, register, &octets);
        cut.truncate(octets.len());
        segment.process(&mut cut);
    }
}
