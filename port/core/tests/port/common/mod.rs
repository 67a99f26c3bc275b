//! Common functions of the tests: a cable, and a raw socket at its far end.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod conformance;
pub(crate) mod xdp;

use std::env;
use std::time::Duration;

use conformance::ETHER_TYPE;
use onbeat_link::{Cause, Outcome, Port, Slot};
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_testing::RawSocket;

/// Longest wait for something that comes at once unless it never comes.
pub(crate) const BOUND: Duration = Duration::from_secs(10);

/// Names two interfaces that a cable joins, as in `eth0,eth1`, to be used in place of veth. Tests
/// then run one after the other: `--test-threads=1`.
const PAIR: &str = "ONBEAT_LINK_PAIR";

/// Says that they stamp frames; not every emulated one that offers to does.
const STAMPS: &str = "ONBEAT_LINK_STAMPS";

/// Two namespaces and a cable between them, both ends up:
///
/// ```text
///   near: "p0" --------- far: "f0"
/// ```
pub(crate) struct Cable {
    pub(crate) near: Handle,
    pub(crate) far: Handle,
    /// Origin and names of the ends; `None`: a veth pair.
    pair: Option<(Handle, [String; 2])>,
}

impl Cable {
    pub(crate) fn new() -> Self {
        Self::with(VethEnd::new("p0"))
    }

    /// With this number of transmit queues at the near end; NICs keep their own number.
    pub(crate) fn with_queues(queues: u32) -> Self {
        Self::with(VethEnd::new("p0").queues(queues, 1))
    }

    /// With this near end, named "p0", where the cable is made of veth.
    pub(crate) fn with(near_end: VethEnd) -> Self {
        let [near, far] =
            [(), ()].map(|()| Handle::in_namespace(&Namespace::new().unwrap()).unwrap());
        let cable = Self { near, far, pair: pair() };
        match &cable.pair {
            Some((home, names)) => cable.lay(home, names),
            None => {
                let end = VethEnd::new("f0").namespace(cable.far.namespace());
                cable.near.create_veth(&near_end, &end).unwrap();
            }
        }
        for (handle, name) in cable.ends() {
            // Else IPv6 speaks on its own while a test looks at what comes.
            handle.set_ipv6(name, false).unwrap();
            handle.set_up(name).unwrap();
        }
        for (handle, name) in cable.ends() {
            handle.wait_carrier(name, BOUND).unwrap();
        }
        cable
    }

    /// Whether the ends are NICs that stamp frames. If not, says so.
    pub(crate) fn stamps() -> bool {
        let they_do = env::var_os(PAIR).is_some() && env::var_os(STAMPS).is_some();
        if !they_do {
            eprintln!("SKIP: needs NICs that stamp frames: {PAIR}, and {STAMPS}=1");
        }
        they_do
    }

    /// Whether the ends go with the cable, as those of a veth pair do. If not, says so.
    pub(crate) fn goes_away() -> bool {
        let lent = env::var_os(PAIR).is_some();
        if lent {
            eprintln!("SKIP: needs interfaces that go away with their namespace: no {PAIR}");
        }
        !lent
    }

    fn ends(&self) -> [(&Handle, &'static str); 2] {
        [(&self.near, "p0"), (&self.far, "f0")]
    }

    fn lay(&self, home: &Handle, names: &[String; 2]) {
        for (name, (handle, end)) in names.iter().zip(self.ends()) {
            home.set_down(name).unwrap();
            home.rename(name, end).unwrap();
            home.move_to(end, handle.namespace()).unwrap();
            // Else it drops frames to others' addresses, of which the far end shows all, and
            // of VLANs that nobody named to it.
            handle.set_promiscuous(end, true).unwrap();
            // The test before may have changed it.
            handle.set_mtu(end, 1500).unwrap();
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let Some((home, names)) = &self.pair else { return };
        for (name, (handle, end)) in names.iter().zip(self.ends()) {
            let back = handle
                .set_down(end)
                .and_then(|()| handle.rename(end, name))
                .and_then(|()| handle.move_to(name, home.namespace()));
            // The next test needs it; this one may have failed already.
            if let Err(error) = back {
                eprintln!("{name} cannot be restored: {error}");
            }
        }
    }
}

fn pair() -> Option<(Handle, [String; 2])> {
    let names = env::var(PAIR).ok()?;
    let (near, far) = names.split_once(',').expect("two names with a comma between");
    let home = Handle::in_namespace(&Namespace::current().unwrap()).unwrap();
    Some((home, [near.into(), far.into()]))
}

/// A plain packet socket for frames of [`ETHER_TYPE`].
pub(crate) fn raw_socket(handle: &Handle, interface: &str) -> RawSocket {
    RawSocket::open_for(handle, interface, ETHER_TYPE.0)
}

/// Removes the interface of a port that waits and does not send.
pub(crate) fn removal_is_reported_by_wait(cable: &Cable, port: &mut dyn Port) {
    let bound_ns = BOUND.as_nanos() as u64;
    assert!(!port.wait(port.now().after(1_000_000)).unwrap(), "it is present");
    cable.near.delete("p0").unwrap();
    let until = port.now().after(bound_ns);
    let result = port.wait(until);
    assert!(result.as_ref().is_err_and(|error| error.is_removed()), "{result:?}");
    let again = port.wait(port.now().after(bound_ns));
    assert!(again.is_err_and(|error| error.is_removed()), "not only once");
}

/// Turns the near end off, then the far end, then both on again. In between, sending is refused `attempts`
/// times each, and a launch is dropped and reported.
pub(crate) fn go_down_and_come_back(
    cable: &Cable,
    port: &mut dyn Port,
    slot: Slot,
    attempts: usize,
) {
    cable.near.set_down("p0").unwrap();
    for _ in 0..attempts {
        assert!(port.send(slot).is_err(), "the interface is off");
    }
    let now = port.now();
    port.send_at(slot, now).unwrap();
    assert!(port.wait(now.after(BOUND.as_nanos() as u64)).unwrap());
    let news = port.confirmation().unwrap().unwrap();
    assert_eq!((news.cause, news.outcome), (Cause::At(now), Outcome::Dropped));

    // No carrier: the driver's queue refuses, after the frame got its number.
    cable.near.set_up("p0").unwrap();
    cable.far.set_down("f0").unwrap();
    cable.near.wait_for("p0", "without carrier", BOUND, |link| !link.carrier).unwrap();
    for _ in 0..attempts {
        let refusal = port.send(slot).unwrap_err();
        assert!(refusal.is_congestion(), "{refusal}");
    }
    cable.far.set_up("f0").unwrap();
    cable.near.wait_carrier("p0", BOUND).unwrap();
    cable.far.wait_carrier("f0", BOUND).unwrap();
}
