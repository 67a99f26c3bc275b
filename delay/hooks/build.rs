//! Compiles the BPF programs and generates the Rust side of `abi/hooks.h`.

fn main() {
    // Programs do not use all arguments of their tracepoints.
    onbeat_bpf_build::compile(&["hooks", "abi"], &["hooks.h"], &["-Wno-unused-parameter"]);
}
