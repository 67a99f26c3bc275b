//! Compiles the programs of benches and scenarios.

fn main() {
    // The signature is fixed by the build-script interface.
    onbeat_bpf_build::compile(
        &["bench", "port", "powerlink", "rtt"],
        &[],
        &["-Wno-unused-parameter"],
    );
}
