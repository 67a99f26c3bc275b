//! Compiles the BPF programs and generates the Rust side of `abi/irq.h` and `abi/guard.h`.

fn main() {
    // Programs do not look at all arguments of their tracepoints.
    onbeat_bpf_build::compile(
        &["ledger", "waiters", "limit", "abi"],
        &["irq.h", "guard.h"],
        &["-Wno-unused-parameter"],
    );
}
