#!/bin/sh
# Installs missing Debian packages that a target of make requires. If none is missing, it requires neither root nor a
# network.
#
#   scripts/setup.sh          for `make build` and `make demo`
#   scripts/setup.sh book     for `make book`, which requires less
#   scripts/setup.sh test     for `make build` and `make test`
#   scripts/setup.sh deb      for `make build` and `make deb`
#   scripts/setup.sh vm       for `make build`, `make test-vm` and `make test-lockdep`
#   scripts/setup.sh arm64    for `make build` and `make test-arm64`
#   scripts/setup.sh release  for `make build`, `make test`, `make deb` and `make release-check`
#
# Exit status: 0 nothing is missing; 2: a package is missing that this script could not or may not install.
set -eu
. "$(dirname "$0")/lib.sh"

packages=
# The foreign architecture of some packages.
architecture=

# Notes a package as missing, with the reason that is printed.
need() {
	case " $packages " in
	*" $1 "*) ;;
	*)
		packages="${packages:+$packages }$1"
		printf 'missing: %-20s %s\n' "$1" "$2"
		;;
	esac
}

have() {
	# The PATH of users often lacks sbin, the directory of ethtool and tcpdump.
	PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1
}

# Whether the C compiler $1 finds the header $2, which need not come from a package.
have_header() {
	have "$1" && echo "#include <$2>" | "$1" -E -x c - >/dev/null 2>&1
}

have_rust() {
	"$root/scripts/cargo" --version >/dev/null 2>&1
}

# The suffix of Debian's Rust packages that are new enough: Debian 12 has 1.63 as `rustc`, and a newer one, for its
# browsers, as `rustc-web`.
case $(. /etc/os-release 2>/dev/null && echo "${ID:-}-${VERSION_ID:-}") in
debian-12) web=-web ;;
*) web= ;;
esac

check_rust() {
	have cc || need gcc "compiles C sources of crates and links programs"
	have_header cc stdio.h || need libc6-dev "headers of the C library"
	[ -e "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" ] ||
		need ca-certificates "cargo fetches crates over TLS"
	if ! have_rust; then
		need "rustc$web" "compiles onbeat"
		need "cargo$web" "builds onbeat and fetches its crates"
	fi
}

check_build() {
	check_rust
	have make || need make "builds libbpf, and runs the Makefile"
	have_header cc linux/if_link.h || need linux-libc-dev "headers of the kernel's interfaces"
	have_header cc gelf.h || need libelf-dev "libbpf reads object files with it"
	have_header cc zlib.h || need zlib1g-dev "libelf and libbpf unpack debug information with it"
	have pkg-config || need pkg-config "the build of libbpf queries it for flags"
	have clang || need clang "compiles the BPF programs"
}

# Whether the Rust toolchain has subcommand $1, which rustup names as such and Debian packages.
have_component() {
	have_rust && "$root/scripts/cargo" "$1" --version >/dev/null 2>&1
}

check_test() {
	have ip || need iproute2 "reads interfaces independently of onbeat"
	have ethtool || need ethtool "reads driver features independently of onbeat"
	have bpftool || need bpftool "reads BPF programs and maps independently of onbeat"
	have git || need git "creates source trees to test the commit in --version"
	have systemd-analyze || need systemd "checks the units"
	have tcpdump || need tcpdump "writes captures"
	have ping || need iputils-ping "sends echo requests"
	have nginx || need nginx-light "receives packets for the interrupt ledger"
	have ab || need apache2-utils "sends requests to a web server"
	have redis-server || need redis-server "receives packets for the interrupt ledger"
	have redis-cli || need redis-tools "sends requests to a database"
	have iperf3 || need iperf3 "sends and reads a stream"
	have cyclictest || need rt-tests "wakes up often"
	{ have promtool && have prometheus; } || need prometheus "checks and scrapes metrics"
	{ have ptp4l && have pmc; } || need linuxptp "synchronizes clocks by PTP"
	have yanglint || need libyang-tools "validates documents against YANG modules"
	/usr/bin/python3 -c 'import ncclient' 2>/dev/null ||
		need python3-ncclient "manages a node by NETCONF independently of onbeat"
	have sshd || need openssh-server "starts NETCONF sessions"
	have etcd || need etcd-server "holds plans of a fleet"
	[ -x /lib/systemd/systemd-udevd ] || need udev "names interfaces"
	have etcdctl || need etcd-client "saves and restores the store of a fleet"
	have tshark || need tshark "decodes captures independently of onbeat"
	have python3 || need python3 "runs the checks of results"
	python3 -c 'import jsonschema' 2>/dev/null ||
		need python3-jsonschema "checks results against their schema"
	/usr/bin/python3 -c 'import networkx' 2>/dev/null ||
		need python3-networkx "finds disjoint paths independently of onbeat"
	/usr/bin/python3 -c 'import scipy' 2>/dev/null ||
		need python3-scipy "solves plans of small networks independently of onbeat"
	have clang-format || need clang-format "checks the style of the BPF programs"

	have mandoc || need mandoc "checks the manual pages"
	have shellcheck || need shellcheck "checks the shell scripts for mistakes"

	# Debian's toolchain lacks these, and its packages of them fit no other toolchain. If another one lacks them,
	# the checks report it.
	if ! have_rust || dpkg-query -W "rustc$web" >/dev/null 2>&1; then
		have_component fmt || need "rustfmt$web" "checks the style of the Rust sources"
		have_component clippy || need "rust${web}-clippy" "checks the Rust sources for mistakes"
	fi
}

check_deb() {
	have dpkg-buildpackage || need dpkg-dev "builds packages"
	have dh || need debhelper "builds packages"
	have dh_dkms || need dh-dkms "builds the package of the kernel module"
	have lintian || need lintian "checks packages"
}

check_vm() {
	have qemu-system-x86_64 || need qemu-system-x86 "runs other kernels"
	have busybox || need busybox-static "contains the first program of the guest"
	have cpio || need cpio "packs the first file system of the guest"
	have modprobe || need kmod "finds the modules of other kernels, and loads them in the guest"
	have xz || need xz-utils "unpacks kernels and modules"
	have zstd || need zstd "unpacks kernels"
	have jq || need jq "reads the paths of the tests from the output of cargo"
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] ||
		need debian-archive-keyring "checks the signatures of kernels"
	have ip || need iproute2 "sets up the guest's interfaces"
	have pahole || need pahole "the headers of Debian's kernels require it"
	have gcc-12 || need gcc-12 "compiles modules for Debian's kernels"
	have flex || need flex "builds user-mode Linux"
	have bison || need bison "builds user-mode Linux"
	have m4 || need m4 "builds user-mode Linux"
	have bc || need bc "builds user-mode Linux"
}

# Whether the cross-compiler finds library $1 of arm64: of a missing one it prints the bare name.
have_arm64_library() {
	have aarch64-linux-gnu-gcc && [ "$(aarch64-linux-gnu-gcc -print-file-name="$1.so")" != "$1.so" ]
}

check_arm64() {
	have aarch64-linux-gnu-gcc || need gcc-aarch64-linux-gnu "compiles C sources of crates for arm64, and links"
	have_arm64_library libelf || need libelf-dev:arm64 "libbpf reads object files with it"
	have_arm64_library libz || need zlib1g-dev:arm64 "libelf and libbpf unpack debug information with it"
	have qemu-aarch64 || have qemu-aarch64-static || need qemu-user "runs programs of arm64"
	# Debian packages the standard library of other targets; rustup installs that of its toolchains.
	PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
	if ! have_rust || dpkg-query -W "rustc$web" >/dev/null 2>&1; then
		[ -d "/usr/lib/rustlib/aarch64-unknown-linux-gnu" ] ||
			need "libstd-rust$web-dev:arm64" "the standard library of Rust for arm64"
	elif ! [ -d "$(rustc --print sysroot)/lib/rustlib/aarch64-unknown-linux-gnu" ]; then
		fail "no Rust standard library for arm64; run: rustup target add aarch64-unknown-linux-gnu"
	fi
	case $packages in
	*:arm64*) architecture=arm64 ;;
	esac
}

check_release() {
	check_test
	check_deb
	have man || need man-db "checks the manual pages"
	have pyflakes3 || need pyflakes3 "checks the Python programs for mistakes"
	have chromium || need chromium "checks the layout of reports"
	have debootstrap || need debootstrap "installs bare Debian trees for the packages"
}

case ${1:-build} in
book)
	check_rust
	have mandoc || need mandoc "turns manual pages into web pages"
	;;
build) check_build ;;
test)
	check_build
	check_test
	;;
deb)
	check_build
	check_deb
	;;
vm)
	check_build
	check_vm
	;;
arm64)
	check_build
	check_arm64
	;;
release)
	check_build
	check_release
	;;
*) fail "unknown argument \"$1\"; it is \"book\", \"test\", \"deb\", \"vm\", \"arm64\", \"release\" or nothing" ;;
esac
[ -n "$packages" ] || exit 0

install="apt-get install --no-install-recommends $packages"
have apt-get || fail "no apt-get here; install the content of these Debian packages by hand: $packages"
if ! have_rust && [ -n "$web" ] && dpkg-query -W -f '${db:Status-Status}\n' rustc cargo rustup \
	2>/dev/null | grep -qx installed; then
	# Debian's packages exclude each other, and only the administrator may remove a compiler.
	fail "rustc-web would replace the rustc, cargo or rustup package installed here; to accept that, run
  $install
or install Rust from https://rustup.rs, then run this again"
fi
[ "$(id -u)" = 0 ] || fail "not root; as root run
  $install
then run this again"

export DEBIAN_FRONTEND=noninteractive
# Waits for another apt, and refuses to remove packages.
apt() {
	apt-get -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@"
}
echo "setup: $install"
[ -z "$architecture" ] || dpkg --add-architecture "$architecture"
apt update || fail "apt-get update failed: see above; is there a network and a valid sources.list?"
# shellcheck disable=SC2086 # one word per package
apt install -y --no-remove --no-install-recommends $packages || fail "installing failed: see above"

have_rust || fail "the installed Rust is too old: $("$root/scripts/cargo" --version 2>&1)
On Debian 12 enable bookworm-security; elsewhere install Rust from https://rustup.rs"
