//! Compiles the programs of benches and scenarios.

fn main() {
    // Programs do not look at all arguments.
    onbeat_bpf_build::compile(
        &["bench", "port", "powerlink", "rtt"],
        &[],
        &["-Wno-unused-parameter"],
    );
}
