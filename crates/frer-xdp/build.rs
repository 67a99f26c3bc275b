//! Compiles the BPF programs and generates the Rust side of `abi/frer.h`.

use std::path::{Path, PathBuf};
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let abi = root.join("../../abi");
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed={}", abi.display());
    println!("cargo::rerun-if-env-changed=CLANG");

    let mut arguments = vec![
        // Atomic operations that return the old value.
        "-mcpu=v3".to_string(),
        "-Wall".to_string(),
        "-Wextra".to_string(),
        "-Werror".to_string(),
        format!("-I{}", abi.display()),
    ];
    // <linux/types.h> wants <asm/types.h>, which Debian keeps under the machine's triplet.
    let machine = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let triplet = PathBuf::from(format!("/usr/include/{machine}-linux-gnu"));
    if triplet.is_dir() {
        arguments.push(format!("-I{}", triplet.display()));
    }

    for program in ["frer", "steer", "control", "abi"] {
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
    fs::write(out.join("constants.rs"), constants(&abi.join("frer.h"))).expect("OUT_DIR is ours");
}

/// The header's numbers: `#define FRER_NAME value` and the enumerators of its enums.
fn constants(header: &Path) -> String {
    let text = fs::read_to_string(header).expect("abi/frer.h is part of the source tree");
    let mut rust = String::new();
    let mut next = None;
    for line in text.lines() {
        let line = line.split("/*").next().unwrap_or_default().trim();
        if let Some(rest) = line.strip_prefix("#define FRER_") {
            let Some((name, value)) = rest.split_once(char::is_whitespace) else { continue };
            let value = value.trim().replace("FRER_", "");
            rust += &match value.strip_suffix("ULL") {
                Some(value) => format!("pub const {name}: u64 = {value};\n"),
                None => format!("pub const {name}: u32 = {};\n", value.trim_end_matches('U')),
            };
        } else if line.starts_with("enum ") {
            next = Some(0u32);
        } else if line.starts_with('}') {
            next = None;
        } else if let Some(value) = next {
            if let Some(name) = line.strip_suffix(',').and_then(|n| n.strip_prefix("FRER_")) {
                rust += &format!("pub const {name}: u32 = {value};\n");
                next = Some(value + 1);
            }
        }
    }
    rust
}
