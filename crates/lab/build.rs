//! Compiles the programs of benches and scenarios.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");

    let mut arguments = ["-mcpu=v3", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
        .map(String::from)
        .to_vec();
    // <linux/types.h> wants <asm/types.h>, which Debian keeps under the machine's triplet.
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let triplet = PathBuf::from(format!("/usr/include/{machine}-linux-gnu"));
    if triplet.is_dir() {
        arguments.push(format!("-I{}", triplet.display()));
    }
    for name in ["bench", "port", "powerlink", "rtt"] {
        let source = format!("bpf/{name}.bpf.c");
        let mut builder = SkeletonBuilder::new();
        builder.source(&source).obj(out.join(format!("{name}.bpf.o"))).clang_args(&arguments);
        if let Some(clang) = env::var_os("CLANG") {
            builder.clang(clang);
        }
        if let Err(error) = builder.build_and_generate(out.join(format!("{name}.skel.rs"))) {
            panic!("{source} does not compile (is clang installed?): {error:?}");
        }
    }
}
