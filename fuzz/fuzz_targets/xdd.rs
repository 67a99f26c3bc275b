//! Device description: every text yields a dictionary, or faults with their position.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    let Ok(text) = std::str::from_utf8(octets) else { return };
    match onbeat_xdd::read(text) {
        Ok(device) => {
            // Values that a configuration gives to its objects.
            let mut objects = device.objects;
            for (object, value) in device.actual {
                assert_eq!(objects.set(object, &value), Ok(()));
            }
        }
        Err(faults) => {
            let lines = text.lines().count().max(1) as u32;
            assert!(!faults.is_empty());
            assert!(faults.iter().all(|fault| fault.line >= 1 && fault.line <= lines + 1));
        }
    }
});
