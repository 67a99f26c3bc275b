//! The XDP program on an interface.

use onbeat_netdev::Handle;

/// The id of the XDP program on an interface.
pub(crate) fn xdp_program(handle: &Handle, interface: &str) -> Option<u32> {
    let link = handle.link(interface).unwrap();
    link.xdp_program().map(|program| program.program_id)
}
