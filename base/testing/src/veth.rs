//! Interfaces with NAPI.

use std::time::Duration;

use onbeat_netdev::{Ethtool, Handle, Namespace, VethEnd};

/// Creates a veth pair in a separate network namespace, both ends up; `rt0` has GRO, and so a NAPI instance.
///
/// # Panics
/// The pair cannot be created.
#[must_use]
pub fn veth_with_napi() -> Handle {
    let handle = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
    handle.create_veth(&VethEnd::new("rt0"), &VethEnd::new("rt1")).unwrap();
    let ethtool = Ethtool::in_namespace(handle.namespace()).unwrap();
    ethtool.set_features("rt0", &[("gro", true)]).unwrap();
    handle.set_up("rt0").unwrap();
    handle.set_up("rt1").unwrap();
    handle.wait_carrier("rt0", Duration::from_secs(10)).unwrap();
    handle
}
