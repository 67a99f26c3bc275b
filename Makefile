# The tasks of this tree: `make help` lists them.

CARGO ?= scripts/cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)

# The profile of Cargo.toml that `make build` and `make lab` build: "dist" for packages.
PROFILE ?= release
ONBEAT := $(TARGET)/$(PROFILE)/onbeat
LAB := $(TARGET)/$(PROFILE)/onbeat-lab
FLEET := $(TARGET)/$(PROFILE)/onbeat-fleet

# Arguments of `make demo` and `make bench`; duration of fuzzing per decoder, and of each soak.
DEMO ?= lab run link-failure --html out/link-failure.html
BENCH ?= frer --json
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 60
SOAK_SEED ?= 1

# Features of the program that `make build` and `make lab` build: "parquet" for `onbeat delay --parquet`.
FEATURES ?=
WITH := $(if $(FEATURES),--features "$(FEATURES:%=onbeat/%)")

# The mdBook of `make book`, from crates.io into the target directory. Newer versions require a newer Rust.
MDBOOK_VERSION := 0.4.52
MDBOOK_ROOT := $(abspath $(TARGET))/tools/mdbook-$(MDBOOK_VERSION)
MDBOOK := $(MDBOOK_ROOT)/bin/mdbook

# Directories of `make install`; packagers set DESTDIR, which precedes each.
PREFIX ?= /usr/local
DOCDIR ?= $(PREFIX)/share/doc/onbeat

# In continuous integration a test that cannot run (not root, a kernel feature missing) fails.
ifneq ($(filter 1 true,$(CI)),)
export ONBEAT_REQUIRE_ALL := 1
# Incremental compilation takes longer, and saves time only in a second build.
export CARGO_INCREMENTAL := 0
endif

.PHONY: help demo build lab fleet test lint fmt bench doc book man audit fuzz soak kmod test-vm test-lockdep test-peers \
	test-peer-files \
	test-arm64 install deb dist static release-check setup setup-book setup-test setup-deb setup-vm setup-arm64 \
	setup-release clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: lab ## Cut a link of a protected stream and count lost frames; VERBOSE=1 prints all tables (root)
	@mkdir -p out
	$(ONBEAT) $(DEMO) $(if $(VERBOSE),--verbose)

build: setup ## Build the program
	$(CARGO) build --profile $(PROFILE) --locked --package onbeat $(WITH)

lab: setup ## Build the program and its laboratory, onbeat-lab
	$(CARGO) build --profile $(PROFILE) --locked --package onbeat --package onbeat-lab $(WITH)

fleet: setup ## Build the program and that of fleets, onbeat-fleet
	$(CARGO) build --profile $(PROFILE) --locked --package onbeat --package onbeat-fleet $(WITH)

test: lint ## Check the sources and run every test (root, or some tests are skipped with the reason)
	$(MAKE) -C kmod selftest
	$(CARGO) test --workspace --locked --no-fail-fast --features onbeat/parquet

test-vm: setup-vm ## Run the tests that require other kernels, in qemu; KERNELS and SUITES select (long)
	CARGO="$(CARGO)" SUITES="$(SUITES)" tests/vm/test $(KERNELS)

test-lockdep: setup-vm ## Run the kernel module under lockdep in user-mode Linux (long)
	CARGO="$(CARGO)" tests/vm/lockdep/run

# A suite runs if one of its variables is set.
test-peers: setup-test ## Run interoperation with other implementations, given the paths of their programs (root; tests/peers/README.md)
	$(CARGO) build --locked --package onbeat --features onbeat/parquet
	XDPFRER="$(XDPFRER)" DNT="$(DNT)" OPENPOWERLINK_MN="$(OPENPOWERLINK_MN)" OPENPOWERLINK_CN="$(OPENPOWERLINK_CN)" \
		ISOCHRON="$(ISOCHRON)" FLOWPING="$(FLOWPING)" \
		CASES="$(CASES)" MINUTES="$(MINUTES)" $(CARGO) test --locked --package onbeat-lab --bench peers

test-peer-files: ## Read device descriptions and projects of other implementations; POWERLINK_FILES names their directories
	POWERLINK_FILES="$(POWERLINK_FILES)" $(CARGO) test --locked --package onbeat-powerlink-node --bench peer-files

test-arm64: setup-arm64 ## Cross-build for arm64, and run the tests of the protocol crates under qemu-user (long)
	CARGO="$(CARGO)" scripts/test-arm64.sh

lint: setup-test ## Check formatting, lints and licenses
	CARGO="$(CARGO)" scripts/lint.sh

fmt: setup-test ## Format the sources
	CARGO="$(CARGO)" scripts/lint.sh --fix

bench: lab ## Measure; BENCH selects the bench (root)
	$(ONBEAT) bench $(BENCH)

doc: setup ## Build the documentation of the crates
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --keep-going

book: man $(MDBOOK) ## Build the documents of docs/ as a web site: out/book/index.html
	$(MDBOOK) build docs --dest-dir $(abspath out/book)
	for page in out/man/*.1; do \
		mandoc -T html $$page > out/book/$$(basename $$page).html || exit; \
	done

$(MDBOOK): | setup-book
	$(CARGO) install --locked --root $(MDBOOK_ROOT) --no-default-features --features search mdbook@$(MDBOOK_VERSION)

man: lab fleet ## Write the manual pages into out/man, from the programs' own help
	$(ONBEAT) man out/man
	$(LAB) man out/man
	$(FLEET) man out/man

audit: ## Check the crates for security advisories (needs cargo-deny and a network)
	CARGO="$(CARGO)" scripts/audit.sh

fuzz: ## Fuzz each decoder for FUZZ_SECONDS (needs cargo-fuzz and a nightly toolchain)
	fuzz/run $(FUZZ_SECONDS)

soak: setup-test ## Run the soaks; SOAK selects, SOAK_SECONDS is the time of each (root; long)
	CARGO="$(CARGO)" SOAK="$(SOAK)" SOAK_SECONDS="$(SOAK_SECONDS)" SOAK_SEED="$(SOAK_SEED)" tests/soak/run

kmod: ## Build the kernel module for the running kernel, or for that of KDIR
	$(MAKE) -C kmod selftest
	$(MAKE) -C kmod $(if $(KDIR),KDIR=$(KDIR))

install: ## Install the programs that `make build`, `lab` and `fleet` built under PREFIX (scripts/install.sh: further variables)
	@test -x $(ONBEAT) || { echo 'install: no $(ONBEAT): run "make build" first' >&2; exit 2; }
	DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" DOCDIR="$(DOCDIR)" scripts/install.sh $(ONBEAT) $(LAB) $(FLEET)

deb: setup-deb ## Build Debian packages into out/deb: onbeat, onbeat-lab, onbeat-fleet, onbeat-dkms
	CARGO="$(CARGO)" scripts/deb.sh

dist: setup ## Build a source archive into out/dist, with the crates that it needs
	CARGO="$(CARGO)" scripts/dist.sh

static: setup ## Build a tar file of static programs into out/static; scripts/static.sh lists their limits
	CARGO="$(CARGO)" scripts/static.sh

release-check: setup-release ## Check the requirements of a release; CHECK selects steps (root; long)
	CARGO="$(CARGO)" scripts/release-check.sh $(CHECK)

setup:
	@scripts/setup.sh

setup-book:
	@scripts/setup.sh book

setup-test:
	@scripts/setup.sh test

setup-deb:
	@scripts/setup.sh deb

setup-vm:
	@scripts/setup.sh vm

setup-arm64:
	@scripts/setup.sh arm64

setup-release:
	@scripts/setup.sh release

clean: ## Remove build results
	rm -rf out
	$(CARGO) clean
