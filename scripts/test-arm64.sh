#!/bin/sh
# Builds onbeat for arm64, compares its BPF objects with those of this machine, and runs the tests of the protocol
# crates, those of vectors/ among them, under qemu-user. qemu-user has no BPF: the loaders of programs are not tested.
#
#   scripts/test-arm64.sh
#
# Exit status: 0 all passed; 1 a test failed; 2 it could not be built.
set -eu
. "$(dirname "$0")/lib.sh"
cd "$root"

targets=${CARGO_TARGET_DIR:-target}
target=aarch64-unknown-linux-gnu
crates="wire frer powerlink xdd sim delay irq-core config"

qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) ||
	fail "no qemu-aarch64; run: scripts/setup.sh arm64"
# Prints checksums and names of the BPF objects that a build of onbeat contains; arguments are cargo's.
objects() {
	"$cargo" build --locked --package onbeat --features onbeat/parquet --message-format=json "$@" >"$work/messages" ||
		return
	sed -n 's,.*"reason":"build-script-executed".*"out_dir":"\([^"]*/onbeat-[^"]*\)".*,\1,p' "$work/messages" |
		while read -r directory; do
			find "$directory" -name '*.bpf.o' -exec sh -c 'cd "$1" && sha256sum ./*.bpf.o' sh "$directory" \; -quit
		done | sort -k 2
}

work=$(mktemp -d)
remove_at_exit "$work"
objects >"$work/here" || exit 2
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$qemu"
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
# libbpf's build queries pkg-config for libelf and zlib.
export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig
objects --target "$target" >"$work/arm64" || exit 2
[ -s "$work/arm64" ] || fail "the build has no BPF objects"
diff "$work/arm64" "$work/here" || {
	echo "test-arm64: these BPF objects differ from those of this machine" >&2
	exit 1
}
echo "test-arm64: $(wc -l <"$work/arm64") BPF objects, the same octets as those for $(uname -m)"
"$qemu" "$targets/$target/debug/onbeat" --version
"$qemu" "$targets/$target/debug/onbeat" run --check examples/reference.toml >/dev/null

packages=
for crate in $crates; do
	packages="$packages --package onbeat-$crate"
done
# shellcheck disable=SC2086 # one word per option
# The memory of a process under qemu-user is that of qemu.
"$cargo" test --locked --no-fail-fast --target "$target" $packages -- \
	--skip bombs::memory_does_not_grow_with_compressed_input || exit 1
