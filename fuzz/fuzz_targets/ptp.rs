//! Management messages of PTP, in datagrams of any process.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_wire::ptp::{ManagementData, Response};

fuzz_target!(|octets: &[u8]| {
    if let Ok(response) = Response::parse(octets) {
        let _ = response.source.to_string();
        if let ManagementData::Port { interface, .. } = response.data {
            assert!(interface.len() <= octets.len());
        }
    }
});
