//! Compiles the BPF programs and generates the Rust side of `abi/guard.h`.

fn main() {
    for file in ["task.h", "budgets.h"] {
        println!("cargo::rerun-if-changed=../tracer/bpf/{file}");
    }
    // Programs do not read all arguments of their tracepoints.
    onbeat_bpf_build::compile(
        &["waiters", "sockets", "limit", "abi"],
        &["irq.h", "guard.h"],
        &["-Wno-unused-parameter"],
    );
}
