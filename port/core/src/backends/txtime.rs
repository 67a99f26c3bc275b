//! The back end `txtime`: what keeps launch times on the interface.

use super::packet::raw_sockets;
use super::{Backend, Facts, Remark};
use crate::Error;
use crate::txtime::{BACKEND, Txtime, TxtimeOptions};

pub(super) fn examine(facts: &Facts<'_>) -> Backend {
    let unusable = |remark| Backend { name: BACKEND, mode: None, remarks: vec![remark] };
    if let Some(refusal) = raw_sockets(facts) {
        return unusable(refusal);
    }
    let found = Txtime::find(facts.namespace, &facts.link.name, &TxtimeOptions::default());
    match found {
        Ok(Txtime { etf, priority, .. }) => {
            let by = if etf.offload { "the NIC" } else { "the kernel's etf" };
            let mode = format!("{by} launches, frames of priority {priority}");
            Backend { name: BACKEND, mode: Some(mode), remarks: Vec::new() }
        }
        Err(Error::Unsupported { why, remedy, .. }) => unusable(Remark::new(why, remedy)),
        Err(error) => unusable(Remark::note(error.to_string())),
    }
}
