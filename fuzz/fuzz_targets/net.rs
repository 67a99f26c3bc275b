//! net.toml and imports: every text yields a network that can be planned, or faults.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onbeat_plan::import::Draft;
use onbeat_plan::plan::PreviousRoutes;
use onbeat_plan::{Network, Plan, node_file};

fuzz_target!(|octets: &[u8]| {
    let Ok(text) = std::str::from_utf8(octets) else { return };
    let mut draft = Draft::default();
    if let Err(error) = draft.add(text, "a.json") {
        assert!(!error.help.is_empty());
    }
    let _ = Network::parse(&draft.to_string(), "net.toml");
    match Network::parse(text, "net.toml") {
        Ok(network) => {
            let plan = Plan::new(&network, &PreviousRoutes::default());
            node_file::all(&network, &plan);
        }
        Err(error) => assert!(error.count() > 0 && !error.to_string().is_empty()),
    }
});
