//! Compiles the BPF programs and generates the Rust side of `abi/hooks.h`.

use std::env;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let abi = root.join("../../abi");
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed={}", abi.join("hooks.h").display());
    println!("cargo::rerun-if-env-changed=CLANG");

    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let mut arguments = vec![
        "-mcpu=v3".to_string(),
        "-Wall".to_string(),
        "-Wextra".to_string(),
        "-Werror".to_string(),
        // Arguments of tracepoints that a program does not look at.
        "-Wno-unused-parameter".to_string(),
        format!("-I{}", abi.display()),
    ];
    // <linux/types.h> wants <asm/types.h>, which Debian keeps under the machine's triplet.
    let triplet = PathBuf::from(format!("/usr/include/{machine}-linux-gnu"));
    if triplet.is_dir() {
        arguments.push(format!("-I{}", triplet.display()));
    }

    for program in ["hooks", "abi"] {
        let mut builder = SkeletonBuilder::new();
        builder
            .source(root.join(format!("bpf/{program}.bpf.c")))
            .obj(out.join(format!("{program}.bpf.o")))
            .clang_args(&arguments);
        if let Some(clang) = env::var_os("CLANG") {
            builder.clang(clang);
        }
        if let Err(error) = builder.build_and_generate(out.join(format!("{program}.skel.rs"))) {
            panic!("bpf/{program}.bpf.c does not compile (is clang installed?): {error:?}");
        }
    }
}
