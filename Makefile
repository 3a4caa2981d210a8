# Every command of the project. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
UV := uv==0.13.7
BIN := .venv/bin
TARGET := $(or $(CARGO_TARGET_DIR),target)

# The same for every cargo call: another interpreter would make cargo build the bindings again.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export VIRTUAL_ENV := $(CURDIR)/.venv
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export FLYBALL_COMMIT := $(or $(shell git rev-parse --short=12 HEAD 2>/dev/null),unknown)

# Where the wheel keeps ONNX Runtime's library, found without importing the package.
ORT = $(shell $(BIN)/python tools/ort_library.py)

RUST := Cargo.toml Cargo.lock pyproject.toml $(shell find crates proto -type f 2>/dev/null)
# Bodies of up to 64 KiB; a hang is an input of over five seconds, and no allocation may be larger than what one request's
# tensors may take in all (RequestLimits::for_body(1 MiB): 8 MiB).
FUZZ_SECONDS ?= 60
FUZZ_TARGETS = $(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_LIMITS := -max_len=65536 -timeout=5 -malloc_limit_mb=9 -rss_limit_mb=1024
# Most tests wait for servers more than they compute; a file's tests stay together, for they share their servers. Those that
# measure, or that need a lane's whole attention, run by themselves.
PARALLEL := --numprocesses 3 --dist loadfile
ALONE := tests/e2e/test_bench_command.py tests/e2e/test_overload.py
COMMIT := $(wildcard .git/logs/HEAD)  # the build knows its commit, so a commit makes a new build

.PHONY: help build demo test test-full lint fmt clean claim-skeleton claim-bench claim-tails claim-protocol claim-decisions claim-journal crash plots-tails bench-peers conformance fuzz side-by-side debug-build tools-present

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

build: .venv/built ## build flyballd and the Python package, ready in .venv/bin

demo: build ## train, serve, load and compare a small model, then stop
	@$(BIN)/flyball demo

test: side-by-side lint ## every check and every test
	@echo "test: Rust, unit and property tests"
	@ORT_DYLIB_PATH="$(ORT)" cargo test --quiet --locked --workspace --exclude flyball-py
	@echo "test: Python, boundary and end to end"
	@$(BIN)/pytest -q $(PARALLEL) $(ALONE:%=--ignore %)
	@$(BIN)/pytest -q $(ALONE)

test-full: side-by-side lint ## the same with many more generated cases
	@echo "test-full: Rust, 4096 cases for each property"
	@ORT_DYLIB_PATH="$(ORT)" PROPTEST_CASES=4096 cargo test --quiet --locked --workspace --exclude flyball-py
	@echo "test-full: Python, full profile"
	@FLYBALL_TESTS=full $(BIN)/pytest -q $(PARALLEL) $(ALONE:%=--ignore %) --timeout 300
	@FLYBALL_TESTS=full $(BIN)/pytest -q $(ALONE) --timeout 300

# Linking a release keeps one core busy for three minutes; the debug build for linters and tests takes the other meanwhile.
side-by-side: .venv/synced
	@$(MAKE) -j2 build debug-build

debug-build: .venv/synced
	@echo "build: linters and Rust tests (debug)"
	@cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	@cargo test --quiet --locked --workspace --exclude flyball-py --no-run

lint: build ## formatters, linters, type checks, arrows, house style
	@echo "lint: tidy"
	@$(BIN)/python tools/tidy.py
	@echo "lint: rustfmt"
	@cargo fmt --all --check
	@echo "lint: clippy"
	@cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	@echo "lint: ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@echo "lint: mypy --strict"
	@$(BIN)/mypy
	@echo "lint: stubtest, the stub against the built extension"
	@$(BIN)/python -m mypy.stubtest flyball._native
	@echo "lint: import-linter"
	@$(BIN)/lint-imports --no-cache >.venv/lint-imports.log 2>&1 || { cat .venv/lint-imports.log; exit 1; }
	@if cargo deny --version >/dev/null 2>&1; then \
	    echo "lint: cargo-deny"; cargo deny --offline --log-level error check bans licenses sources; \
	else \
	    echo "lint: cargo-deny is not installed, licences were not checked; get it: cargo install --locked cargo-deny"; \
	fi

fmt: .venv/synced ## format Rust and Python
	@cargo fmt --all
	@$(BIN)/ruff check --quiet --fix --exit-zero .
	@$(BIN)/ruff format --quiet .

claim-skeleton: build ## prove the claims of docs/claims.md on this machine (about 15 minutes)
	@echo "claim-skeleton: building the echo that the claims compare with"
	@cargo build --quiet --release --locked -p flyball-server --example echo
	@$(BIN)/python -m bench.claims.skeleton

claim-bench: build ## prove the claims of the benchmark itself (about 15 minutes; gets wrk, oha and perf_analyzer)
	@$(BIN)/python -m bench.claims.bench

claim-tails: build ## prove the claims about tails on this machine (about 25 minutes; ONLY="steady bursts" for some)
	@$(BIN)/python -m bench.claims.tails $(if $(ONLY),--only $(ONLY))

claim-protocol: build ## prove the claims about the protocol on this machine (about 12 minutes; ONLY="beside rates" for some)
	@$(BIN)/python -m bench.claims.protocol $(if $(ONLY),--only $(ONLY))

claim-decisions: build ## prove the claims about decisions on this machine (about 15 minutes; ONLY="stages beside" for some)
	@$(BIN)/python -m bench.claims.decisions $(if $(ONLY),--only $(ONLY))

claim-journal: build ## prove the claims about the decision journal on this machine (about 30 minutes; ONLY="path sync" for some)
	@cargo build --quiet --release --locked -p flyball-journal --example pour
	@$(BIN)/python -m bench.claims.journal $(if $(ONLY),--only $(ONLY))

crash: build ## kill a server under load 1,000 times and look for what it acknowledged (about 10 minutes)
	@$(BIN)/python -m bench.claims.journal --only crash

plots-tails: .venv/synced ## draw the tables and pictures of docs/performance.md's tails anew from the published record
	@$(BIN)/python -m bench.publish tails

fuzz: tools-present ## feed every decoder odd bytes, FUZZ_SECONDS=60 each (ONLY="grpc_frame" for some)
	@cargo fuzz --version >/dev/null 2>&1 || { echo "cargo-fuzz is missing; get it: cargo install --locked cargo-fuzz"; exit 1; }
	@for target in $(or $(ONLY),$(FUZZ_TARGETS)); do \
	    echo "fuzz: $$target, $(FUZZ_SECONDS) s"; \
	    mkdir -p fuzz/corpus/$$target; \
	    RUSTC_BOOTSTRAP=1 cargo fuzz run --release $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
	        -max_total_time=$(FUZZ_SECONDS) $(FUZZ_LIMITS) -print_final_stats=1; \
	done

bench-peers: build ## measure flyball beside five other servers, ALL=1 for seven (about 20 minutes)
	@$(BIN)/python -m bench.peers.run

conformance: build ## drive flyballd with other people's clients and write docs/reference/conformance.md (ONLY="curl" for some)
	@$(BIN)/python -m conformance $(if $(ONLY),--only $(ONLY))

clean: ## remove everything that was built
	rm -rf $(TARGET) .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -f python/flyball/_native*.so

tools-present:
	@command -v $(PYTHON) >/dev/null || { echo "python3 is missing; get Python 3.11 or newer: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "$(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	    || { echo "$(PYTHON) cannot make virtual environments; get them: apt-get install python3-venv"; exit 1; }
	@command -v cargo >/dev/null || { echo "cargo is missing; get Rust 1.92 or newer: https://rustup.rs"; exit 1; }
	@command -v cc >/dev/null || { echo "a C linker is missing; get one: apt-get install gcc libc6-dev"; exit 1; }

.venv/bin/uv: | tools-present
	@echo "build: virtual environment"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q '$(UV)'

.venv/synced: requirements/dev.lock | .venv/bin/uv
	@echo "build: Python packages of requirements/dev.lock"
	@$(BIN)/uv pip sync -q requirements/dev.lock
	@rm -f .venv/built; touch $@

.venv/built: .venv/synced $(RUST) $(COMMIT)
	@echo "build: flyballd (release)"
	@cargo build --release --locked -p flyballd
	@ln -sfr $(TARGET)/release/flyballd $(BIN)/flyballd
	@echo "build: flyball._native (release) and $(BIN)/flyball"
	@rm -f python/flyball/_native*.so  # a stale one of another name would shadow the new one
	@$(BIN)/maturin develop --quiet --release --uv
	@touch $@
