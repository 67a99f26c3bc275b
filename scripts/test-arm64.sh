#!/bin/sh
# Builds onbeat for arm64, compares its BPF objects with those of this machine, and runs the tests of the protocol
# crates, those of vectors/ among them, under qemu-user. qemu-user has no BPF: what loads programs is not tested.
#
#   scripts/test-arm64.sh
#
# Exit status: 0 all passed; 1 a test failed; 2 it could not be built.
set -eu
cd "$(dirname "$0")/.."

cargo=${CARGO:-scripts/cargo}
targets=${CARGO_TARGET_DIR:-target}
target=aarch64-unknown-linux-gnu
crates="wire frer frer-user powerlink xdd sim delay irq-core config"

qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || {
	echo "test-arm64: no qemu-aarch64; run: scripts/setup.sh arm64" >&2
	exit 2
}
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$qemu"
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
# libbpf's build queries pkg-config for libelf and zlib.
export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig

"$cargo" build --locked --target "$target" --package onbeat --features onbeat/parquet || exit 2
"$qemu" "$targets/$target/debug/onbeat" --version
"$qemu" "$targets/$target/debug/onbeat" run --check examples/reference.toml

packages=
for crate in $crates; do
	packages="$packages --package onbeat-$crate"
done
# shellcheck disable=SC2086 # one word per option
"$cargo" test --locked --no-fail-fast --target "$target" $packages || exit 1
