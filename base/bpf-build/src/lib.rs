//! Compilation of BPF programs under `bpf/` for build scripts, and generation of the Rust side of their
//! declarations.
//!
//! `onbeat_bpf::bpf_object!` and `onbeat_bpf::bpf_skeleton!` read the output in `OUT_DIR`.

use std::env;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

/// Compiles `bpf/NAME.bpf.c` of the calling crate, for each of `programs`, to `NAME.bpf.o` and `NAME.skel.rs`
/// in `OUT_DIR`. Warnings are errors.
///
/// `headers` are the included ones of the folder `abi` of the workspace; `arguments` are passed to clang. The
/// variable `CLANG` sets its path.
///
/// # Panics
/// A program does not compile; with the message of clang.
pub fn compile(programs: &[&str], headers: &[&str], arguments: &[&str]) {
    let out = path("OUT_DIR");
    let root = path("CARGO_MANIFEST_DIR");
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (shared, abi) = (own.join("../bpf/bpf"), own.join("../../abi"));
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed={}", shared.display());
    for header in headers {
        println!("cargo::rerun-if-changed={}", abi.join(header).display());
    }
    println!("cargo::rerun-if-env-changed=CLANG");

    // Atomic operations that return the old value require version 3.
    let mut all = ["-mcpu=v3", "-Wall", "-Wextra", "-Werror"].map(String::from).to_vec();
    all.extend(arguments.iter().map(ToString::to_string));
    all.extend([&shared, &abi].map(|folder| format!("-I{}", folder.display())));
    // <linux/types.h> includes <asm/types.h>, which Debian installs under the machine's triplet.
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let triplet = PathBuf::from(format!("/usr/include/{machine}-linux-gnu"));
    if triplet.is_dir() {
        all.push(format!("-I{}", triplet.display()));
    }

    for program in programs {
        let mut builder = SkeletonBuilder::new();
        builder
            .source(root.join(format!("bpf/{program}.bpf.c")))
            .obj(out.join(format!("{program}.bpf.o")))
            .clang_args(&all);
        if let Some(clang) = env::var_os("CLANG") {
            builder.clang(clang);
        }
        if let Err(error) = builder.build_and_generate(out.join(format!("{program}.skel.rs"))) {
            panic!("bpf/{program}.bpf.c does not compile (is clang installed?): {error:?}");
        }
    }
}

fn path(variable: &str) -> PathBuf {
    PathBuf::from(env::var_os(variable).unwrap_or_else(|| panic!("cargo sets {variable}")))
}
