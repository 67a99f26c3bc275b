//! Compiles the BPF programs and generates the Rust side of `abi/guard.h`.

fn main() {
    println!("cargo::rerun-if-changed=../tracer/bpf/task.h");
    // Programs do not read all arguments of their tracepoints.
    onbeat_bpf_build::compile(
        &["waiters", "sockets", "limit", "abi"],
        &["irq.h", "guard.h"],
        &["-Wno-unused-parameter"],
    );
}
