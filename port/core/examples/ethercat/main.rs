//! EtherCAT over the real-time port: ethercrab, which knows nothing of the port, as main device,
//! and two emulated devices at the other end of a veth pair. As root:
//!
//! ```text
//! cargo run -p onbeat-link --example ethercat -- packet     # or xsk, xdp, module
//! ```
//!
//! On a real interface the port is opened in the namespace of an [`onbeat_link::Claim`]; nothing
//! else changes.

mod adapter;
mod device;

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, thread};

use adapter::{Bus, ETHER_TYPE};
use device::Segment;
use ethercrab::std::ethercat_now;
use ethercrab::{MainDevice, MainDeviceConfig, PduStorage, Timeouts};
use onbeat_link::{Backend, Port, PortOptions};
use onbeat_netdev::{Handle, Namespace, VethEnd};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const DEVICES: usize = 2;
const CYCLES: u32 = 1_000;
const CYCLE_NS: u64 = 1_000_000;

fn main() -> Result<()> {
    let (near, far) = cable()?;
    let backend = env::args().nth(1).map_or(Ok(Backend::default()), |name| name.parse())?;
    let mut port = open(backend, near.namespace(), "main0")?;
    let devices = open(Backend::default(), far.namespace(), "bus0")?;
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let devices = scope.spawn(|| serve(devices, &end));
        let result = exchange(port.as_mut());
        end.store(true, Ordering::Relaxed);
        devices.join().expect("the devices do not panic")?;
        result
    })
}

/// A veth pair, "main0" to "bus0", with each end in a namespace of its own.
fn cable() -> Result<(Handle, Handle)> {
    let near = Handle::in_namespace(&Namespace::new()?)?;
    let far = Handle::in_namespace(&Namespace::new()?)?;
    let far_end = VethEnd::new("bus0").namespace(far.namespace());
    near.create_veth(&VethEnd::new("main0"), &far_end)?;
    for (handle, name) in [(&near, "main0"), (&far, "bus0")] {
        handle.set_ipv6(name, false)?;
        handle.set_up(name)?;
    }
    near.wait_carrier("main0", Duration::from_secs(10))?;
    Ok((near, far))
}

fn open(backend: Backend, namespace: &Namespace, interface: &str) -> Result<Box<dyn Port>> {
    let ether_types = vec![ETHER_TYPE];
    let options = PortOptions { ether_types, confirm: false, ..PortOptions::default() };
    Ok(onbeat_link::open(backend, namespace, interface, options)?)
}

/// The devices' end of the cable: received frames are processed and returned.
fn serve(mut port: Box<dyn Port>, end: &AtomicBool) -> onbeat_link::Result<()> {
    let mut segment = Segment::new(DEVICES);
    let slot = port.allocate(1514)?;
    while !end.load(Ordering::Relaxed) {
        port.wait(port.now().after(50_000_000))?;
        while let Some(received) = port.receive()? {
            let mut frame = port.octets(&received).to_vec();
            port.release(received);
            if segment.process(&mut frame) {
                port.update(slot, &frame)?;
                port.send(slot)?;
            }
        }
    }
    Ok(())
}

/// The main device's end.
fn exchange(port: &mut dyn Port) -> Result<()> {
    let storage = PduStorage::<4, { PduStorage::element_size(512) }>::new();
    let (tx, rx, pdus) = storage.try_split().expect("split for the first time");
    let main = MainDevice::new(pdus, Timeouts::default(), MainDeviceConfig::default());
    let mut bus = Bus::new(port, tx, rx)?;

    let group = bus.run(main.init_single_group::<4, 32>(ethercat_now))??;
    let group = bus.run(group.into_op(&main))??;
    for device in group.iter(&main) {
        println!("{:#06x} {}, {}", device.configured_address(), device.name(), device.identity());
    }

    let mut next = bus.now();
    let mut before = 0_u32;
    for cycle in 1..=CYCLES {
        next = next.after(CYCLE_NS);
        bus.sleep_until(next)?;
        for device in group.iter(&main) {
            device.outputs_raw_mut().copy_from_slice(&cycle.to_le_bytes());
        }
        let response = bus.run(group.tx_rx(&main))??;
        for device in group.iter(&main) {
            let inputs = &device.inputs_raw()[..];
            if !response.all_op() || inputs != (!before).to_le_bytes() {
                return Err(format!("cycle {cycle}: {response:?}, inputs {inputs:02x?}").into());
            }
        }
        before = cycle;
    }
    let strays = bus.strays();
    println!(
        "{CYCLES} cycles: the outputs of each came back inverted in the next; strays: {strays}"
    );
    drop(bus);
    println!("{}: {}", port.capabilities().backend(), port.diagnostics()?);
    Ok(())
}
