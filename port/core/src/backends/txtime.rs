//! The back end `txtime`: checks if the interface supports launch times.

use super::packet::raw_sockets;
use super::{Assessment, InterfaceFacts, Remark, unusable};
use crate::txtime::Txtime;
use crate::{Error, TxtimeOptions};

pub(super) fn examine(facts: &InterfaceFacts<'_>) -> Assessment {
    if let Some(refusal) = raw_sockets(facts) {
        return unusable(refusal);
    }
    let found = Txtime::find(facts.namespace, &facts.link.name, &TxtimeOptions::default());
    match found {
        Ok(Txtime { etf, priority, .. }) => {
            let by = if etf.offload { "the NIC" } else { "the kernel's etf" };
            (
                Some(format!("{by} sends at the launch time, frames of priority {priority}")),
                Vec::new(),
            )
        }
        Err(Error::Unsupported { why, remedy, .. }) => unusable(Remark::new(why, remedy)),
        Err(error) => unusable(Remark::note(error.to_string())),
    }
}
