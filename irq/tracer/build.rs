//! Compiles the BPF programs and generates the Rust side of `abi/irq.h`.

fn main() {
    // Programs do not read all arguments of their tracepoints.
    onbeat_bpf_build::compile(
        &["ledger", "abi"],
        &["irq.h", "guard.h"],
        &["-Wno-unused-parameter"],
    );
}
