//! Compiles the XDP programs and generates the Rust side of `abi/port.h`.

fn main() {
    onbeat_bpf_build::compile(&["xsk", "xdp", "abi"], &["port.h"], &[]);
}
