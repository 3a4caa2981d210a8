"""The mutants: what each patch breaks, and the tests that must fail with it and pass without it.

Those of crates that depend on others come first, so that a mutant makes cargo compile its own crate alone. Must not know how
tests are run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PATCHES = Path(__file__).parent / "mutants"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault. Its name is that of its patch and of its topic."""

    name: str
    breaks: str
    tests: tuple[str, ...]
    """Names of Rust tests in `crate`, or pytest nodes."""
    crate: str = ""
    """The crate that the patch changes; tests by pytest then need a server of it. Empty for Python."""
    target: tuple[str, ...] = ("--lib",)
    """Which of the crate's tests, as `cargo test` takes it."""

    @property
    def patch(self) -> Path:
        """What `git apply` takes."""
        return PATCHES / f"{self.name}.patch"

    @property
    def in_python(self) -> bool:
        """Whether pytest runs its tests."""
        return any(".py::" in test for test in self.tests)


MUTANTS = (
    Mutant(
        "client-certificate-not-checked",
        "a TLS listener with client authorities accepts clients without a certificate",
        ("tests/e2e/test_tls.py::test_a_client_without_a_certificate_is_turned_away_where_one_is_asked_for",),
        "server",
    ),
    Mutant(
        "rollback-without-swap",
        "a rollback to a warm deployment is acknowledged, and the routes still serve the replaced one",
        ("apply::tests::what_is_warm_serves_again_and_what_is_not_named_is_gone_before_anything_is_loaded",),
        "deployments",
    ),
    Mutant(
        "admission-off",
        "every request is admitted, whatever the load, the limits and its deadline",
        (
            "admission::tests::a_full_gate_refuses_and_opens_again_when_a_place_is_given_back",
            "batch::tests::a_full_model_refuses_at_the_door",
            "batch::tests::a_deadline_shorter_than_a_run_is_refused_with_what_a_run_takes",
        ),
        "plane",
    ),
    Mutant(
        "refused-request-computed",
        "the model runs for a request that was refused because its deadline passed in the queue",
        ("batch::tests::jobs_past_their_deadline_and_jobs_nobody_waits_for_cost_no_run",),
        "plane",
    ),
    Mutant(
        "window-counts-twice",
        "a window counts each event twice",
        ("window::tests::a_window_is_what_a_list_of_all_events_says",),
        "features",
    ),
    Mutant(
        "error-counted-as-answer",
        "the load generator counts a failed request as answered",
        ("tally::tests::tallies_of_threads_add_up_to_one_and_the_first_problem_is_the_earliest",),
        "load",
    ),
    Mutant(
        "batching-always-on",
        "a model is batched although its rows change with their neighbours",
        ("probe::tests::sums_over_rows_of_any_width_are_not_batched",),
        "engine",
    ),
    Mutant(
        "fdatasync-removed",
        "the journal acknowledges records that it wrote and did not sync",
        (
            "journal::tests::side_files::"
            "after_a_power_cut_all_that_was_acknowledged_is_there_with_its_key_and_its_long_input",
        ),
        "journal",
    ),
    Mutant(
        "signature-check-skipped",
        "a signature counts if it names a trusted key, whether or not that key made it",
        ("every_case_of_the_corpus_has_its_one_outcome",),
        "signing",
        ("--test", "corpus"),
    ),
    Mutant(
        "histogram-bucket-off-by-one",
        "a latency at the lower edge of a histogram's bucket is counted in the bucket below",
        ("histogram::tests::every_value_lies_below_its_bucket_s_upper_edge_and_within_a_tenth_of_it",),
        "telemetry",
    ),
    Mutant(
        "replay-ignores-model-version",
        "a replay takes the newest deployment of a document, with other models than those of the record",
        ("tests/unit/test_replay_words.py::test_a_deployment_is_found_by_its_document_and_models",),
    ),
    Mutant(
        "edited-summary-believed",
        "the page of claims takes verdicts from a record's summary, which anybody can edit",
        ("tests/unit/test_claims_page.py::test_a_summary_that_was_edited_changes_nothing",),
    ),
)
