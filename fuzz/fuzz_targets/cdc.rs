//! Concise DCF of a managing node: any octets yield a project that can run, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_powerlink::network::Project;
use onbeat_wire::MacAddress;

fuzz_target!(|octets: &[u8]| {
    if let Ok(project) = Project::read(octets) {
        assert!(project.nodes().next().is_some());
        let managing = project.managing(MacAddress([2, 0, 0, 0, 0, 240])).expect("it was checked");
        // Every value of the process image has an object with a place.
        for value in &project.values {
            assert!(managing.objects().place(value.object).is_ok());
        }
    }
});
