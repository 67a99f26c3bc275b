//! XDP features of a device's driver, as reported by the kernel's `netdev` family (Linux 6.3 and later).

use std::fmt;

use netlink_packet_core::DefaultNla;
use nix::errno::Errno;

use crate::{Handle, Result, genl::Family};

const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;
const NETDEV_A_DEV_XDP_RX_METADATA_FEATURES: u16 = 5;

/// XDP features of a driver in native mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct XdpFeatures {
    /// Pass, drop, abort and transmit back. Required for native mode.
    pub basic: bool,
    /// XDP_REDIRECT away from the device.
    pub redirect: bool,
    /// XDP_REDIRECT to the device. Some drivers report it conditionally: veth, while its *other* end runs
    /// NAPI (generic receive offload on, or an XDP program).
    pub ndo_xmit: bool,
    /// AF_XDP with zero copy.
    pub xsk_zerocopy: bool,
    /// Programs offloaded to the device.
    pub hw_offload: bool,
    /// Frames in several fragments on reception.
    pub rx_sg: bool,
    /// Frames in several fragments on redirection to the device.
    pub ndo_xmit_sg: bool,
    /// Maximum number of fragments of a frame in AF_XDP with zero copy; `None` if the kernel does not report
    /// it.
    pub zerocopy_max_segments: Option<u32>,
    /// A program can read the device's time stamp of a frame.
    pub rx_timestamp: bool,
    /// A program can read the device's hash of a frame.
    pub rx_hash: bool,
    /// A program can read the VLAN tag that the device removed from a frame.
    pub rx_vlan_tag: bool,
}

/// Returns the features of the device's driver; `None`: the kernel (before 6.3) does not report them.
///
/// # Errors
/// [`crate::Error::NotFound`]; the kernel's reply is malformed.
pub fn features(handle: &Handle, name: &str) -> Result<Option<XdpFeatures>> {
    let index = handle.index(name)?;
    let Some(family) = handle.namespace().run(|| Family::open("netdev"))?? else {
        return Ok(None);
    };
    let query = DefaultNla::new(NETDEV_A_DEV_IFINDEX, index.to_ne_bytes().to_vec());
    let attributes = match family.get(NETDEV_CMD_DEV_GET, &[query]) {
        Ok(attributes) => attributes,
        // The device was removed between the two requests: the handle's error lists the others.
        Err(failure) if failure.errno() == Some(Errno::ENODEV) => {
            handle.link(name)?;
            return Err(failure.of("read XDP features", name));
        }
        Err(failure) => return Err(failure.of("read XDP features", name)),
    };
    let mut features = XdpFeatures::default();
    for (kind, value) in attributes {
        match (kind, value.len()) {
            (NETDEV_A_DEV_XDP_FEATURES, _) => features.take_actions(number(&value)),
            (NETDEV_A_DEV_XDP_ZC_MAX_SEGS, 4) => {
                features.zerocopy_max_segments = u32::try_from(number(&value)).ok();
            }
            (NETDEV_A_DEV_XDP_RX_METADATA_FEATURES, _) => features.take_metadata(number(&value)),
            _ => {}
        }
    }
    Ok(Some(features))
}

impl XdpFeatures {
    /// `enum netdev_xdp_act`.
    fn take_actions(&mut self, bits: u64) {
        self.basic = bits & 1 != 0;
        self.redirect = bits & 2 != 0;
        self.ndo_xmit = bits & 4 != 0;
        self.xsk_zerocopy = bits & 8 != 0;
        self.hw_offload = bits & 16 != 0;
        self.rx_sg = bits & 32 != 0;
        self.ndo_xmit_sg = bits & 64 != 0;
    }

    /// `enum netdev_xdp_rx_metadata`.
    fn take_metadata(&mut self, bits: u64) {
        self.rx_timestamp = bits & 1 != 0;
        self.rx_hash = bits & 2 != 0;
        self.rx_vlan_tag = bits & 4 != 0;
    }
}

/// The features by the kernel's names, separated by spaces; "none" if there are none.
impl fmt::Display for XdpFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = [
            (self.basic, "basic"),
            (self.redirect, "redirect"),
            (self.ndo_xmit, "ndo-xmit"),
            (self.xsk_zerocopy, "xsk-zerocopy"),
            (self.hw_offload, "hw-offload"),
            (self.rx_sg, "rx-sg"),
            (self.ndo_xmit_sg, "ndo-xmit-sg"),
            (self.rx_timestamp, "rx-timestamp"),
            (self.rx_hash, "rx-hash"),
            (self.rx_vlan_tag, "rx-vlan-tag"),
        ]
        .into_iter()
        .filter_map(|(has, name)| has.then_some(name))
        .collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(" ") }.as_str())
    }
}

/// Reads a number of four or eight octets in host order; 0 for another length.
fn number(value: &[u8]) -> u64 {
    match *value {
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_have_the_kernels_names() {
        let mut features = XdpFeatures::default();
        assert_eq!(features.to_string(), "none");
        features.take_actions(0b10_0111);
        features.take_metadata(1);
        assert_eq!(features.to_string(), "basic redirect ndo-xmit rx-sg rx-timestamp");
    }
}
