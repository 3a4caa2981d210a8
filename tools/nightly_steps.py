"""What `make nightly` runs, as data: each step's command, what must be built, fetched or installed first, and its limit.

Must not know how steps are run, nor where results are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

Command = tuple[str, ...]
SEED = "{seed}"
"""Stands for a number that is drawn anew for every run of a step and is told with its result."""


@dataclass(frozen=True, slots=True)
class Need:
    """A tool that is not part of a checkout: a command that succeeds where it is here, and how to get it."""

    shows: Command
    get: str


NEEDS = {
    "cargo-fuzz": Need(("cargo", "fuzz", "--version"), "cargo install --locked cargo-fuzz"),
    "cargo-deny": Need(("cargo", "deny", "--version"), "cargo install --locked cargo-deny"),
    "miri": Need(("cargo", "+nightly", "miri", "--version"), "rustup toolchain install nightly --component miri,rust-src"),
    "triton-clones": Need(
        ("sh", "-c", 'test -d "$TRITON_QA_DIR"'),
        "clone triton-inference-server/server, client and common side by side; TRITON_QA_DIR=…/server/qa names them",
    ),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the page."""

    name: str
    title: str
    command: Command
    minutes_max: int
    before: tuple[Command, ...] = ()
    """What it stands on: where one of these fails, the step fails."""
    fetch: tuple[str, ...] = ()
    """Targets of the Makefile that download: where one fails, the step is skipped."""
    needs: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    says: str = ""
    """A pattern of its output with which another exit code counts as passed, too: short windows may miss a bar."""


TESTED: Command = ("make", "PROFILE=tested", "build")
SHIPPED: Command = ("make", "shipped")
PYTHON = ".venv/bin/python"
FULL_PARTS = (".parts/versitygw", ".parts/h2spec", ".parts/mlflow/ready", ".parts/model-signing/ready")
QUICK = r"\d+ claims: \d+ ok, \d+ fall short, \d+ not measured"
RUST_TESTS = ("cargo", "test", "--quiet", "--locked", "--profile", "tested", "--workspace", "--exclude", "flyball-py")

TESTS = (
    Step("test-full", "every check and test, with real servers", ("make", "test-full"), 90, fetch=FULL_PARTS),
    Step(
        "hypothesis",
        "Python's property tests with a fresh seed",
        (PYTHON, "-m", "pytest", "-q", "-m", "hypothesis", f"--hypothesis-seed={SEED}", "--timeout", "600", "tests"),
        60,
        before=(TESTED,),
        environment={"FLYBALL_TESTS": "full"},
    ),
    Step(
        "proptest",
        "Rust's unit and property tests with a fresh seed",
        (*RUST_TESTS, "--lib", "--features", "flyballd/virtual-time"),
        60,
        before=(TESTED,),
        environment={"PROPTEST_RNG_SEED": SEED, "PROPTEST_CASES": "16384"},
    ),
    Step("loom", "the journal's lock-free parts in every order of their threads", ("make", "loom"), 15),
    Step("cargo-deny", "licences, sources, bans and advisories of the crates", ("make", "deny"), 10, needs=("cargo-deny",)),
    Step("torch", "conversions from PyTorch", ("make", "PROFILE=tested", "test-torch"), 60, fetch=(".parts/torch/ready",)),
)

# Of each crate what Miri can run in minutes: no foreign code, no sockets, no system calls that it does not know.
MIRI = {
    "flyball-core": (),
    "flyball-telemetry": (),
    "flyball-decision": (),
    "flyball-wire": ("--skip", "regions::", "--skip", "shared_memory"),
    "flyball-plane": ("reply::", "schedule::", "backlog::", "admission::", "breaker::"),
    "flyball-journal": ("ring::", "tickets::", "merkle::"),
    "flyball-engine": ("ceiling::tests::every_word_is_read", "latency::"),
}


def miri(crate: str, chosen: Command) -> Step:
    """The unit tests of a crate, interpreted."""
    return Step(
        f"miri-{crate.removeprefix('flyball-')}",
        f"{crate} under Miri" + (f": {' '.join(chosen)}" if chosen else ""),
        ("cargo", "+nightly", "miri", "test", "--locked", "-p", crate, "--lib", *(("--", *chosen) if chosen else ())),
        45,
        needs=("miri",),
        environment={
            "MIRIFLAGS": "-Zmiri-disable-isolation",
            "PROPTEST_CASES": "2",
            "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1",
        },
    )


def fuzz(target: str) -> Step:
    """A minute of one decoder."""
    command = ("make", "fuzz", f"ONLY={target}", "FUZZ_SECONDS=60")
    return Step(f"fuzz-{target}", f"fuzz target {target}, 60 s", command, 20, needs=("cargo-fuzz",))


SUITES = "skeleton bench tails protocol decisions journal registry convert compat ease hardening endurance truth"
CLAIM_FETCHES = {
    "registry": (".parts/versitygw", ".parts/model-signing/ready"),
    "hardening": (".parts/h2spec",),
}
CLAIM_NEEDS = {"compat": ("triton-clones",)}
CLAIM_MINUTES_MAX = {"truth": 150}
"""`truth` compiles each mutant in a checkout of its own; the others take at most an hour at full length."""


def claim(name: str) -> Step:
    """A suite of claims with windows so short that it shows only that it runs."""
    return Step(
        f"claim-{name}",
        f"the claims of {name}, `QUICK=1`",
        ("make", f"claim-{name}", "QUICK=1"),
        CLAIM_MINUTES_MAX.get(name, 60),
        fetch=CLAIM_FETCHES.get(name, ()),
        needs=CLAIM_NEEDS.get(name, ()),
        says=QUICK,
    )


SHIPS = (
    Step("test-shipped", "end-to-end tests against the build that ships", ("make", "test-shipped"), 60, before=(SHIPPED,)),
    Step("conformance", "third-party clients", ("make", "conformance"), 60),
)

NOT_COVERED = {
    "loom: the swap of the routes": "`arc_swap::ArcSwap` swaps them; nothing of it is ours",
    "loom: the queue of the ring": "it is crossbeam's; the models have one with the same orders in its place",
    "Miri: features, signing, server, deployments, load, flyballd": "redb, ring's assembly and sockets are foreign to it",
    "Miri: most of engine": "it calls ONNX Runtime; its foreign calls are covered by tests of real models",
    "Miri: simulations, segments and walks": "they take hours interpreted, or files by system calls that Miri does not know",
    "tests with virtual time against the shipped build": "it has none; `make test-shipped` names how many it leaves out",
    "claims at their full length": "`QUICK=1` shows that they run; their figures are in docs/claims.md, with their age",
}


def steps(root: Path) -> list[Step]:
    """All of them, in order: one build after the other, and quick ones first."""
    targets = sorted(path.stem for path in (root / "fuzz/fuzz_targets").glob("*.rs"))
    return [
        *TESTS,
        *(miri(crate, chosen) for crate, chosen in MIRI.items()),
        *map(fuzz, targets),
        *SHIPS,
        *map(claim, SUITES.split()),
    ]
