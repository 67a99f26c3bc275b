//! The back end `module`: whether onbeat.ko is there.

use super::{Assessment, InterfaceFacts, Remark, unusable};
use crate::module::is_loaded;

pub(super) fn examine(facts: &InterfaceFacts<'_>) -> Assessment {
    if facts.link.mac.is_none() {
        return unusable(Remark::new("it has no Ethernet address", "take an Ethernet interface"));
    }
    match is_loaded(facts.namespace) {
        Ok(true) => (Some("answers and launches in the kernel".to_owned()), Vec::new()),
        Ok(false) => unusable(Remark::new(
            "the kernel module onbeat is not loaded",
            "modprobe onbeat, or install it by DKMS first: make -C kmod install",
        )),
        Err(why) => unusable(Remark::note(why)),
    }
}
