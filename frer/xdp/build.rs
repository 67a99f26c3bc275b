//! Compiles the BPF programs and generates the Rust side of `abi/frer.h`.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let headers = &["frer.h"];
    onbeat_bpf_build::compile(
        &["frer", "lre", "wildcard", "steer", "control", "abi", "lans"],
        headers,
        &[],
    );
    // Programs do not use all arguments of their tracepoints.
    onbeat_bpf_build::compile(&["output"], headers, &["-Wno-unused-parameter"]);
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let header = Path::new("../../abi/frer.h");
    fs::write(out.join("constants.rs"), constants(header)).expect("OUT_DIR is writable");
}

/// Returns the numbers of the header: `#define FRER_NAME value` and the enumerators of its enums.
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
