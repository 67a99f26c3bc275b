//! Layout of a process image: any text yields channels, or faults with their position.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let Ok(text) = std::str::from_utf8(octets) else { return };
    match onbeat_xdd::process_image(text) {
        Ok(channels) => assert!(channels.iter().all(|channel| channel.bits > 0)),
        Err(faults) => assert!(!faults.is_empty()),
    }
});
