//! Kernels that the ledger refuses.

use std::fs;

use onbeat_bpf::tracepoints::Tracepoints;
use onbeat_irq::Tracer;
use onbeat_testing::{Feature, require_all};

/// Linux 6.1 has neither.
const NEW: [&str; 2] = ["sk_data_ready", "sock_recv_length"];

#[test]
fn a_kernel_without_tracepoints_is_refused_by_their_names() {
    if !require_all(&[Feature::Root, Feature::Btf]) {
        return;
    }
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    let has = |name: &str| {
        let symbol = format!("__traceiter_{name}");
        symbols.lines().any(|line| line.split_ascii_whitespace().nth(2) == Some(&symbol))
    };
    let missing: Vec<&str> = NEW.into_iter().filter(|name| !has(name)).collect();
    match Tracer::start() {
        Ok(_) => assert!(missing.is_empty(), "started without {missing:?}"),
        Err(error) => {
            let text = error.to_string();
            let names = format!("lacks tracepoints: {};", missing.join(", "));
            assert!(text.contains(&names) && text.contains("Linux 6.3"), "{text}");
        }
    }
}

#[test]
fn all_missing_tracepoints_are_named_with_one_remedy() {
    if !require_all(&[Feature::Root, Feature::Btf]) {
        return;
    }
    let wanted = [("none_such", "Linux 9"), ("napi_poll", "Linux 2"), ("nor_this", "Linux 9")];
    let error = Tracepoints::require(&wanted).unwrap_err().to_string();
    assert_eq!(error, "this kernel lacks tracepoints: none_such, nor_this; requires Linux 9");
}
