//! The back end `module`: checks that onbeat.ko is loaded.

use super::{Assessment, InterfaceFacts, Remark, unusable};
use crate::module::is_loaded;

pub(super) fn examine(facts: &InterfaceFacts<'_>) -> Assessment {
    if facts.link.mac.is_none() {
        return unusable(Remark::new("it has no Ethernet address", "use an Ethernet interface"));
    }
    match is_loaded(facts.namespace) {
        Ok(true) => (Some("responds and sends in the kernel".to_owned()), Vec::new()),
        Ok(false) => unusable(Remark::new(
            "the kernel module onbeat is not loaded",
            "modprobe onbeat; if it is not installed: package onbeat-dkms (in a checkout: make -C kmod install)",
        )),
        Err(why) => unusable(Remark::note(why)),
    }
}
