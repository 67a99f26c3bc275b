#!/bin/sh
# Builds both programs for arm64 and runs, under qemu, what needs no kernel of that architecture: the tests of the
# pure crates, which run every table of vectors/, those of the data plane in user space, and the self-test of the
# kernel module. Programs of BPF and the module itself are built, and not run.
#
#   scripts/test-arm64.sh          after scripts/setup.sh arm64
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
cargo=${CARGO:-scripts/cargo}
target=aarch64-unknown-linux-gnu
compiler=aarch64-linux-gnu-gcc
emulator=qemu-aarch64-static

# debug information of a build that is never debugged costs time and gigabytes
export CARGO_PROFILE_DEV_DEBUG=0
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="$compiler"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator"
export CC_aarch64_unknown_linux_gnu="$compiler"

"$cargo" build --locked --target "$target" --package onbeat --package onbeat-lab --features onbeat/parquet
for program in onbeat onbeat-lab; do
	binary=${CARGO_TARGET_DIR:-target}/$target/debug/$program
	readelf -h "$binary" | grep -q 'Machine: *AArch64' || {
		echo "test-arm64: $binary is not of arm64" >&2
		exit 1
	}
	"$emulator" "$binary" --version
done
"$cargo" test --locked --target "$target" --no-fail-fast --package onbeat-wire --package onbeat-frer \
	--package onbeat-powerlink --package onbeat-xdd --package onbeat-delay --package onbeat-irq-core

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' INT TERM
"$compiler" -std=gnu11 -O1 -Wall -Wextra -Werror -static -o "$work/selftest" kmod/selftest.c
"$emulator" "$work/selftest"
