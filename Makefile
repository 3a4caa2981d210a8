# Every command of the project. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
UV := uv==0.13.7
BIN := .venv/bin
VERSITYGW := github.com/versity/versitygw/cmd/versitygw@v1.8.0
H2SPEC := github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
MODEL_SIGNING := model-signing==1.1.1 pyopenssl  # which it imports and does not ask for
TORCH := torch==2.15.0 onnxscript
MLFLOW := mlflow==3.17.2 onnx==1.23.2 onnxruntime==1.31.1
TARGET := $(or $(CARGO_TARGET_DIR),target)
# release is quick to build; dist is what ships and what the claims measure; `make test` builds its own (see Cargo.toml).
PROFILE ?= release
BUILT = .venv/built-$(PROFILE)
# Of the tests' profile alone; see crates/server/Cargo.toml.
VIRTUAL_TIME = $(if $(filter tested,$(PROFILE)),--features virtual-time)

# The same for every cargo call: another interpreter would make cargo build the bindings again.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export VIRTUAL_ENV := $(CURDIR)/.venv
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where the shell forbids Python its bytecode, every process of the tests would compile its packages anew: half of their time.
unexport PYTHONDONTWRITEBYTECODE
# Only what is measured or shipped names its commit: otherwise every commit would compile the server again.
HEAD_COMMIT := $(or $(shell git rev-parse --short=12 HEAD 2>/dev/null),unknown)
export FLYBALL_COMMIT := $(if $(filter dist,$(PROFILE)),$(HEAD_COMMIT),development)

# Where the wheel keeps ONNX Runtime's library, found without importing the package.
ORT = $(shell $(BIN)/python tools/ort_library.py)

RUST := Cargo.toml Cargo.lock pyproject.toml $(shell find crates proto -type f 2>/dev/null)
# Bodies of up to 64 KiB; a hang is an input of over five seconds, and no allocation may be larger than what one request's
# tensors may take in all (RequestLimits::for_body(1 MiB): 8 MiB).
FUZZ_SECONDS ?= 60
FUZZ_TARGETS = $(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_LIMITS := -max_len=65536 -timeout=5 -malloc_limit_mb=9 -rss_limit_mb=1024
# Most tests wait for servers more than they compute; a file's tests stay together, for they share their servers, and files keep their
# order: the many quick ones of tests/unit fill the gaps at the end. Those that need a lane's whole attention run by themselves,
# and first: what they import is compiled once then, and not by every worker.
PARALLEL := --numprocesses 3 --dist loadfile --no-loadscope-reorder
ALONE := tests/e2e/test_overload.py
PARTS := FLYBALL_VERSITYGW="$(CURDIR)/.parts/versitygw" FLYBALL_H2SPEC="$(CURDIR)/.parts/h2spec" FLYBALL_MODEL_SIGNING="$(CURDIR)/.parts/model-signing/bin/model_signing"
# Fetched for test-full, where tests of a missing part fail (tests/support/parts.py).
FULL_PARTS := .parts/versitygw .parts/h2spec .parts/mlflow/ready .parts/model-signing/ready
COMMIT = $(if $(filter dist,$(PROFILE)),$(wildcard .git/logs/HEAD))

.PHONY: help build check demo test test-full test-torch test-shipped loom deny nightly lint lint-rust lint-fuzz lint-python fmt clean claim-skeleton claim-bench claim-tails claim-protocol claim-decisions claim-journal claim-registry claim-convert claim-compat claim-ease claim-hardening claim-endurance claim-truth wheel busy crash claims-page bench-peers triton-backend compare-builds conformance fuzz release shipped stubs suite tools-present

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

build: $(BUILT) ## build flyballd and the Python package, ready in .venv/bin

shipped: ## build flyballd and the Python package as they ship, for measurements
	@$(MAKE) PROFILE=dist build

wheel: export FLYBALL_COMMIT := $(HEAD_COMMIT)
wheel: .venv/synced ## build the Python package as a wheel in dist/
	@rm -f dist/flyball-*.whl
	@$(BIN)/maturin build --quiet --profile dist --out dist

demo: build ## train, serve, load and compare a small model, then stop
	@$(BIN)/flyball demo

test: ## every check and every test (FLYBALL_WITHOUT=redis,postgres leaves tests of missing parts out)
	@$(MAKE) PROFILE=tested suite

test-full: $(FULL_PARTS) ## test with many more generated cases, real servers and tools
	@PROPTEST_CASES=4096 FLYBALL_TESTS=full $(PARTS) FLYBALL_MLFLOW_PYTHON="$(CURDIR)/.parts/mlflow/bin/python" \
	    $(MAKE) PROFILE=tested PYTEST_TIMEOUT="--timeout 300" suite

test-torch: $(BUILT) .parts/torch/ready ## test conversions from PyTorch, in an environment of their own (downloads gigabytes)
	@FLYBALL_TORCH=1 .parts/torch/bin/python -m pytest -q tests/of_torch --timeout 300

test-shipped: shipped ## test end to end what ships; its time cannot be moved, so tests that hold a clock are left out
	@FLYBALL_WITHOUT="virtual-time,$(FLYBALL_WITHOUT)" $(PARTS) $(BIN)/pytest -q $(ALONE)
	@FLYBALL_WITHOUT="virtual-time,$(FLYBALL_WITHOUT)" $(PARTS) $(BIN)/pytest -q $(PARALLEL) $(ALONE:%=--ignore %) \
	    tests/e2e tests/clients tests/contract

loom: tools-present ## run the journal's lock-free parts in every order of their threads (seconds)
	@cargo test --quiet --manifest-path loom/Cargo.toml

deny: ## check licences, sources and advisories of all crates; downloads the advisories
	@cargo deny --log-level error check

nightly: .venv/synced ## run what takes too long for every change, and go on where it stopped (MINUTES=60; ONLY="loom fuzz-signing"; STRICT=1)
	@$(BIN)/python tools/nightly.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only $(ONLY)) $(if $(STRICT),--strict)

suite: lint
	@echo "test: Rust, unit and property tests"
	@ORT_DYLIB_PATH="$(ORT)" cargo test --quiet --locked --profile $(PROFILE) --workspace --exclude flyball-py --lib --bins --tests \
	    --features flyballd/virtual-time
	@echo "test: Python, boundary and end to end"
	@$(BIN)/pytest -q $(ALONE) $(PYTEST_TIMEOUT)
	@$(BIN)/pytest -q $(PARALLEL) $(ALONE:%=--ignore %) $(PYTEST_TIMEOUT)

# Python's checks come first: they take seconds, and nothing is worth compiling before they pass.
lint: lint-python build ## formatters, linters, type checks, dependency rules, house style
	@$(MAKE) --jobs 2 --output-sync=target lint-rust stubs lint-fuzz

check: lint-python ## run before each commit: the same checks, and the unit tests of changed modules (SINCE=HEAD)
	@$(MAKE) PROFILE=tested build lint-rust stubs
	@ORT_DYLIB_PATH="$(ORT)" $(BIN)/python tools/changed.py --since $(or $(SINCE),HEAD)

lint-rust:
	@echo "lint: rustfmt"
	@cargo fmt --all --check
	@echo "lint: clippy"
	@cargo clippy --quiet --locked --profile $(PROFILE) --workspace --all-targets -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then \
	    echo "lint: cargo-deny"; cargo deny --offline --log-level error check bans licenses sources; \
	else \
	    echo "lint: cargo-deny is not installed, licences were not checked; get it: cargo install --locked cargo-deny"; \
	fi

# Its C++ is not needed to see that the targets compile.
lint-fuzz:
	@echo "lint: fuzz targets"
	@CUSTOM_LIBFUZZER_PATH=/nowhere/libFuzzer.a cargo check --quiet --manifest-path fuzz/Cargo.toml

lint-python: .venv/synced
	@echo "lint: tidy"
	@$(BIN)/python tools/tidy.py
	@echo "lint: ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@echo "lint: mypy --strict"
	@$(BIN)/mypy
	@echo "lint: import-linter"
	@PYTHONPATH=python $(BIN)/lint-imports --no-cache >.venv/lint-imports.log 2>&1 || { cat .venv/lint-imports.log; exit 1; }

stubs:
	@echo "lint: stubtest, the stub against the built extension"
	@$(BIN)/python -m mypy.stubtest flyball._native

fmt: .venv/synced ## format Rust and Python
	@cargo fmt --all
	@$(BIN)/ruff check --quiet --fix --exit-zero .
	@$(BIN)/ruff format --quiet .

# Of every claim: ONLY="topic …" measures some and adds them to the newest record of this build, RESUME=1 those that it lacks,
# QUICK=1 measures windows that prove nothing and stores nothing. STRICT=1, which the command reads, fails where a claim was
# measured nowhere.
CLAIM_OPTIONS = $(if $(ONLY),--only $(ONLY)) $(if $(RESUME),--resume) $(if $(QUICK),--quick)

# Its echo is an example of the server's crate: under another commit cargo would compile that crate twice.
claim-skeleton: export FLYBALL_COMMIT := $(HEAD_COMMIT)
claim-skeleton: shipped ## prove the claims of docs/claims.md on this machine (about 15 minutes)
	@echo "claim-skeleton: building the echo that the claims compare with"
	@cargo build --quiet --profile dist --locked -p flyball-server --example echo
	@$(BIN)/python -m bench.claims.skeleton $(CLAIM_OPTIONS)

claim-bench: shipped ## prove the claims of the benchmark itself (about 15 minutes; downloads wrk, oha and perf_analyzer)
	@$(BIN)/python -m bench.claims.bench $(CLAIM_OPTIONS)

claim-tails: shipped ## prove the claims about tails on this machine (about 25 minutes; ONLY="steady bursts" for some)
	@$(BIN)/python -m bench.claims.tails $(CLAIM_OPTIONS)

claim-protocol: shipped ## prove the claims about the protocol on this machine (about 12 minutes; ONLY="beside rates" for some)
	@$(BIN)/python -m bench.claims.protocol $(CLAIM_OPTIONS)

claim-decisions: shipped ## prove the claims about decisions on this machine (about 15 minutes; ONLY="stages beside" for some)
	@$(BIN)/python -m bench.claims.decisions $(CLAIM_OPTIONS)

claim-journal: shipped ## prove the claims about the decision journal on this machine (about 30 minutes; ONLY="path sync" for some)
	@cargo build --quiet --profile dist --locked -p flyball-journal --example pour
	@$(BIN)/python -m bench.claims.journal $(CLAIM_OPTIONS)

claim-registry: shipped .parts/versitygw .parts/model-signing/ready ## prove the claims about the registry on this machine (about 12 minutes; ONLY="scale kill" for some)
	@$(PARTS) $(BIN)/python -m bench.claims.registry $(CLAIM_OPTIONS)

claim-convert: shipped ## prove the claims about converting and optimising models on this machine (about 25 minutes; ONLY="killed" for some)
	@$(BIN)/python -m bench.claims.convert $(CLAIM_OPTIONS)

claim-compat: shipped ## run Triton's own suites against flyball (about 27 minutes; TRITON_QA_DIR=…/server/qa, with client and common beside server; ONLY="infer http" for some)
	@TRITON_QA_DIR="$(TRITON_QA_DIR)" TRITON_CLIENT_DIR="$(TRITON_CLIENT_DIR)" $(BIN)/python -m $(if $(ONLY),conformance.originals --only $(ONLY),bench.claims.compat $(CLAIM_OPTIONS))

claim-ease: shipped wheel ## prove the claims about a new user's first hour on this machine (about 10 minutes; ONLY="readme" for some)
	@$(BIN)/python -m bench.claims.ease $(CLAIM_OPTIONS)

claim-hardening: shipped .parts/h2spec ## try every known fault again on this machine (about 40 minutes; ONLY="attempts" for some)
	@$(PARTS) $(BIN)/python -m bench.claims.hardening $(CLAIM_OPTIONS)

claim-endurance: shipped ## soak a server, and run tests beside busy processes (20 and 40 minutes; ONLY="soak" for one)
	@$(BIN)/python -m bench.claims.endurance $(CLAIM_OPTIONS)

# It applies mutants to a checkout of its own, which keeps what it compiles: an hour at first, then half of that.
claim-truth: shipped ## put twelve faults into the code and see a test catch each (about an hour; ONLY="fdatasync-removed" for some)
	@$(BIN)/python -m bench.claims.truth $(CLAIM_OPTIONS)

busy: ## run the timing-dependent tests 50 times beside four busy processes (TIMES=50; about 80 minutes)
	@$(MAKE) PROFILE=tested build
	@$(BIN)/python tools/busy.py --times $(or $(TIMES),50)

crash: shipped ## kill a server under load 1,000 times and check its acknowledged records (about 10 minutes)
	@$(BIN)/python -m bench.claims.journal --only crash

claims-page: ## make docs/claims.md, docs/performance.md and the tails' pictures from the stored records
	@$(BIN)/python -m bench.publish

fuzz: tools-present ## fuzz every decoder for FUZZ_SECONDS=60 each (ONLY="grpc_frame" for some)
	@cargo fuzz --version >/dev/null 2>&1 || { echo "cargo-fuzz is missing; get it: cargo install --locked cargo-fuzz"; exit 1; }
	@for target in $(or $(ONLY),$(FUZZ_TARGETS)); do \
	    echo "fuzz: $$target, $(FUZZ_SECONDS) s"; \
	    mkdir -p fuzz/corpus/$$target; \
	    RUSTC_BOOTSTRAP=1 cargo fuzz run --release $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
	        -max_total_time=$(FUZZ_SECONDS) $(FUZZ_LIMITS) -print_final_stats=1; \
	done

bench-peers: shipped ## measure flyball against six other servers, ALL=1 for ten (about 25 minutes)
	@$(BIN)/python -m bench.peers.run

triton-backend: ## build Triton's ONNX Runtime backend for the peers and claims (TRITON_SOURCES=DIR; says what DIR needs)
	@$(BIN)/python -m bench.peers.triton_backend $(TRITON_SOURCES)

# The other build has a checkout of its own: it may compile other formats.
compare-builds: shipped ## compare this build with another commit's, side by side (BEFORE=COMMIT; five minutes once both are built)
	@test -n "$(BEFORE)" || { echo "name a commit:  make compare-builds BEFORE=HEAD~1"; exit 1; }
	@test -d .parts/before || git clone --quiet . .parts/before
	@git -C .parts/before fetch --quiet origin && git -C .parts/before checkout --quiet $$(git rev-parse $(BEFORE))
	@env -u VIRTUAL_ENV -u PYO3_PYTHON $(MAKE) -C .parts/before shipped
	@$(BIN)/python -m bench.builds .parts/before

conformance: shipped ## drive flyballd with third-party clients and write docs/reference/conformance.md (ONLY="curl" for some)
	@$(BIN)/python -m conformance $(if $(ONLY),--only $(ONLY))

release: test ## test, then set the version, date the changelog, commit and tag (VERSION=0.2.0); pushes nothing
	@$(BIN)/python tools/release.py $(VERSION)

clean: ## remove everything that was built
	rm -rf $(TARGET) .venv .parts .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -f python/flyball/_native*.so

tools-present:
	@command -v $(PYTHON) >/dev/null || { echo "python3 is missing; get Python 3.11 or newer: apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "$(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	    || { echo "$(PYTHON) cannot make virtual environments; get them: apt-get install python3-venv"; exit 1; }
	@command -v cargo >/dev/null || { echo "cargo is missing; get Rust 1.92 or newer: https://rustup.rs"; exit 1; }
	@command -v cc >/dev/null || { echo "a C linker is missing; get one: apt-get install gcc libc6-dev"; exit 1; }

# What others made, for test-full and the claims: an S3-compatible server, h2spec, MLflow, and the reference tool of model signing.
.parts/versitygw:
	@command -v go >/dev/null || { echo "go is missing; get it: https://go.dev/dl"; exit 1; }
	@echo "parts: versitygw"
	@mkdir -p .parts && GOBIN="$(CURDIR)/.parts" GOFLAGS=-trimpath go install $(VERSITYGW)

# By a module of its own: `go install` takes no version of a module without go.mod.
.parts/h2spec:
	@command -v go >/dev/null || { echo "go is missing; get it: https://go.dev/dl"; exit 1; }
	@echo "parts: h2spec"
	@mkdir -p .parts/h2spec-module && cd .parts/h2spec-module && { test -f go.mod || go mod init h2spec-module 2>/dev/null; } \
	    && go get $(H2SPEC) && go build -trimpath -o "$(CURDIR)/$@" $(firstword $(subst @, ,$(H2SPEC)))

.parts/mlflow/ready: | .venv/bin/uv
	@echo "parts: MLflow"
	@$(BIN)/uv venv -q --clear --python $(BIN)/python .parts/mlflow
	@VIRTUAL_ENV=.parts/mlflow $(BIN)/uv pip install -q $(MLFLOW)
	@touch $@

# With the processor's build of PyTorch where its index can be reached, and with PyPI's, which is the same on a processor.
TORCH_INDEX := https://download.pytorch.org/whl/cpu
.parts/torch/ready: requirements/dev.lock | .venv/bin/uv
	@echo "parts: PyTorch"
	@$(BIN)/uv venv -q --clear --python $(BIN)/python .parts/torch
	@VIRTUAL_ENV=.parts/torch $(BIN)/uv pip install -q -r requirements/dev.lock
	@VIRTUAL_ENV=.parts/torch $(BIN)/uv pip install -q -c requirements/dev.lock --index $(TORCH_INDEX) $(TORCH) \
	    || VIRTUAL_ENV=.parts/torch $(BIN)/uv pip install -q -c requirements/dev.lock $(TORCH)
	@touch $@

.parts/model-signing/ready: | .venv/bin/uv
	@echo "parts: model-signing"
	@$(BIN)/uv venv -q --clear --python $(BIN)/python .parts/model-signing
	@VIRTUAL_ENV=.parts/model-signing $(BIN)/uv pip install -q $(MODEL_SIGNING)
	@touch $@

.venv/bin/uv: | tools-present
	@echo "build: virtual environment"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q '$(UV)'

.venv/synced: requirements/dev.lock | .venv/bin/uv
	@echo "build: Python packages of requirements/dev.lock"
	@$(BIN)/uv pip sync -q requirements/dev.lock
	@rm -f .venv/built-*; touch $@

$(BUILT): .venv/synced $(RUST) $(COMMIT)
	@echo "build: flyballd ($(PROFILE))"
	@cargo build --profile $(PROFILE) --locked -p flyballd $(VIRTUAL_TIME)
	@ln -sfr $(TARGET)/$(PROFILE)/flyballd $(BIN)/flyballd
	@echo "build: flyball._native ($(PROFILE)) and $(BIN)/flyball"
	@rm -f python/flyball/_native*.so  # a stale one of another name would shadow the new one
	@$(BIN)/maturin develop --quiet --profile $(PROFILE) --uv $(VIRTUAL_TIME)
	@rm -f .venv/built-*; touch $@
