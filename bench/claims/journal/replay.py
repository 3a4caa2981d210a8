"""Topics: decisions made under load and replayed bit for bit after a restart; and a candidate's flips counted correctly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import pandas as pd
from scipy.stats import binomtest

from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.decisions import example
from bench.claims.journal import specs
from bench.claims.journal.commands import decisions
from bench.claims.journal.loads import CONNECTIONS, Recorded
from flyball.bench.run import run_load
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.tails.stand import Stand

DECISIONS, QUICK_DECISIONS, RATE_PER_S = 100_000, 3_000, 8_000.0
ROWS, QUICK_ROWS, SEED = 20_000, 2_000, 20261116
COUNTRIES = ("DE", "FR", "IT", "US")
WITHIN = 1e-12
REPLAYED, TOLD = "replayed", "told"


def measure(stand: Stand) -> None:
    """card-fraud at a rate at which its rows share runs, a restart, and every decision again."""
    recorded = Recorded(stand, RATE_PER_S, 0.0)
    journal, wanted = stand.folder / "replayed", QUICK_DECISIONS if stand.quick else DECISIONS
    with recorded.serve("{durability: buffered}", journal) as server:
        recorded.made.warm(server.url)
        plan = recorded.made.plan(
            server,
            stand.generator_cpus,
            connections=4 * CONNECTIONS,
            arrivals=Arrivals(kind="poisson", rate_per_s=RATE_PER_S, seed=SEED),
            duration_s=wanted / RATE_PER_S * 1.1,
        )
        result = run_load(plan, recorded.made.payloads())
        if result.failed or result.refused or result.mismatched:
            raise FlyballError(f"{result.failed} failed, {result.refused} refused: {result.first_problem}")
    with recorded.serve("{durability: buffered}", journal):
        stand.tell("restarted")
    told = decisions(journal, "replay", "--decision", example.NAME, fails=True)
    counts = {name: int(count) for name, count in told["classes"].items() if count}
    batched = _batched(journal)
    stand.keep(REPLAYED, {"wanted": wanted, "classes": counts, "batched": batched, "answered": result.answered})


def _batched(journal: Path) -> int:
    """Decisions whose rows were not alone in their run."""
    sql = "SELECT count(*) AS found FROM decisions WHERE CAST(batch->0->>'rows' AS INTEGER) > 1"
    (row,) = decisions(journal, "query", sql)
    return int(row["found"])


def measure_candidate(stand: Stand) -> None:
    """A candidate with other weights, on decisions that were recorded; pandas judges from ONNX Runtime's own scores."""
    folder = stand.folder / "candidate"
    folder.mkdir()
    journal = folder / "journal"
    count = QUICK_ROWS if stand.quick else ROWS
    chance = np.random.default_rng(SEED)
    frame = pd.DataFrame(
        {
            "account": [f"account-{number}" for number in range(count)],
            "amount": np.round(chance.uniform(0, 1000, count), 2),
            "rate": np.round(chance.uniform(0, 1000, count), 2),
            "country": chance.choice(COUNTRIES, count),
        }
    )
    index, candidate = specs.with_candidate(folder)
    config = specs.configured(folder / "config.json", journal)
    with stand.serve_snapshot(index, more=["--config", str(config)]) as server:
        rows: list[dict[str, Any]] = frame.to_dict("records")  # type: ignore[assignment]
        answers = specs.ask_rows(server.url, specs.JUDGED, rows)
    frame["was"] = [answer["outcome"] for answer in answers]
    frame["now"] = _judged(candidate.with_name("candidate.onnx"), frame)
    told = decisions(journal, "replay", "--decision", specs.JUDGED, "--candidate", str(candidate), "--group-by", "country")
    wrong = apart(frame, told)
    flips = int((frame["was"] != frame["now"]).sum())
    stand.keep(TOLD, {"rows": count, "flips": flips, "apart": wrong[:20], "differences": len(wrong)})


def _judged(model: Path, frame: pd.DataFrame) -> list[str]:
    """The candidate's outcomes by ONNX Runtime and the spec's bands, with nothing of flyball's."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    columns = frame[["amount", "rate"]].to_numpy(np.float64).astype(np.float32)
    scores = session.run(["score"], {"x": columns})[0][:, 0].astype(np.float64)
    return ["low" if score < specs.EDGE else "high" for score in scores]


def apart(frame: pd.DataFrame, told: dict[str, Any]) -> list[str]:
    """In words, what the report has otherwise."""
    wrong = []
    matrix = pd.crosstab(frame["was"], frame["now"])
    for was, row in matrix.iterrows():
        for now, count in row.items():
            if told["matrix"][str(was)][str(now)] != count:
                wrong.append(f"{was} to {now}: {told['matrix'][str(was)][str(now)]}, pandas has {count}")
    flipped = frame["was"] != frame["now"]
    wrong += _rate_apart("all", told["flips"], int(flipped.sum()), len(frame))
    segments = {segment["values"][0]: segment for segment in told["segments"]}
    for country, count in flipped.groupby(frame["country"]).agg(["sum", "count"]).iterrows():
        segment = segments.get(str(country))
        if segment is None or segment["rows"] != count["count"]:
            wrong.append(f"{country}: {segment and segment['rows']} rows, pandas has {count['count']}")
            continue
        wrong += _rate_apart(str(country), segment["flips"], int(count["sum"]), int(count["count"]))
    return wrong


def _rate_apart(name: str, rate: dict[str, float], hits: int, rows: int) -> list[str]:
    """Share and Wilson's interval."""
    interval = binomtest(hits, rows).proportion_ci(0.95, method="wilson")
    wanted = (hits / rows, interval.low, interval.high)
    found = (rate["value"], rate["low"], rate["high"])
    near = all(abs(one - other) <= WITHIN for one, other in zip(found, wanted, strict=True))
    return [] if near else [f"{name}: {found}, pandas and scipy have {wanted}"]


def _not_exact(raw: Raw) -> Figure:
    found = raw[REPLAYED]
    exact = found["classes"].get("bit-exact", 0)
    faults = [f"only {exact:,} of {found['wanted']:,} were replayed"] if exact < found["wanted"] else []
    faults += [] if found["batched"] else ["no two rows shared a run"]
    told = ", ".join(f"{count:,} {name}" for name, count in found["classes"].items())
    return Figure(sum(found["classes"].values()) - exact, f"{told}; {found['batched']:,} shared a run", "; ".join(faults))


def _otherwise(raw: Raw) -> Figure:
    found = raw[TOLD]
    told = f"{found['flips']:,} of {found['rows']:,} flip" + "".join(f"; {one}" for one in found["apart"][:1])
    return Figure(found["differences"], told, "" if found["flips"] else "no decision flips")


TOPIC = Topic(
    "replay",
    measure,
    subject=f"card-fraud at {RATE_PER_S:,.0f}/s, recorded `buffered`, replayed after a restart",
    sample=f"{DECISIONS:,} decisions",
    claims=(Claim("exact", "decisions that are not bit-exact", none("some shared a run"), _not_exact),),
)
CANDIDATE = Topic(
    "candidate",
    measure_candidate,
    subject="a candidate with other weights on recorded decisions, beside ONNX Runtime's own scores",
    sample=f"{ROWS:,} rows in {len(COUNTRIES)} segments",
    claims=(Claim("flips", "flips by segment, and intervals, other than those of pandas and SciPy", none(), _otherwise),),
)
