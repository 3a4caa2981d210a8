"""A LightGBM model becomes a folder whose decision answers as the booster does; what cannot be said is refused."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flyball.errors import InvalidInputError, ModelRefusedError, UsageError
from flyball.models import attribution
from flyball.models.convert import Converted, Terms, convert, from_lightgbm
from flyball.models.convert.folder import foreign
from flyball.models.equivalence.certificate import read_certificate
from tests.support import trained_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lightgbm")


@pytest.fixture(scope="module")
def booster() -> Any:
    return trained_models.lightgbm_booster()


@pytest.fixture(scope="module")
def converted(folder: Path, booster: Any) -> Converted:
    booster.save_model(folder / "fraud.txt")
    data = trained_models.saved(trained_models.payments(), folder / "payments.csv")
    return convert(folder / "fraud.txt", data=data, out=folder / "out", target="fraud", rows=2000)


def test_the_decision_answers_as_the_booster_does_also_for_gaps_and_unseen_texts(converted: Converted, booster: Any) -> None:
    fresh = trained_models.odd(trained_models.payments(600, seed=3))
    fresh.loc[::9, "mcc"] = 9999
    rows = trained_models.inputs(fresh)
    np.testing.assert_allclose(trained_models.scores(converted, fresh), booster.predict(rows), rtol=0, atol=1e-6)


def test_the_folder_has_all_that_a_decision_needs_and_says_what_was_compared(converted: Converted) -> None:
    names = {path.name for path in converted.folder.iterdir()}
    assert names == {
        "model.onnx", "model.trees.json", "decision.yaml", "fitted.json", "samples", "expected.parquet", "conversion.json",
        "equivalence.json",
    }  # fmt: skip
    assert foreign(converted.folder) == []
    told = json.loads((converted.folder / "conversion.json").read_text())
    assert told["comparison"]["by_kind"].keys() == {"given", "random", "edge"}
    assert told["comparison"]["equal"]
    assert told["comparison"]["all"]["max_abs"] <= told["comparison"]["bound"] == 1e-5
    assert told["outputs_cut"] == ["label"]
    assert told["fields"]["card_age"] == "card age"
    sample = json.loads((converted.folder / "samples" / "1.json").read_text())
    with converted.decision() as decision:
        assert 0 <= (decision.decide(sample).score or -1) <= 1


def test_the_rows_that_were_compared_are_kept_by_field_with_what_was_expected(converted: Converted, tmp_path: Path) -> None:
    from flyball.decision.score.score import score_file

    kept = converted.folder / "expected.parquet"
    score_file(converted.decision(), kept, tmp_path / "scored.parquet", prefix="served.")
    scored = pd.read_parquet(tmp_path / "scored.parquet")
    assert len(scored) == 2000
    assert scored["served.fault"].isna().all()
    np.testing.assert_allclose(scored["served.score"], scored["flyball.expected"], rtol=0, atol=1e-5)


def test_contributions_add_up_to_the_booster_s_margin(converted: Converted, booster: Any) -> None:
    frame = trained_models.payments(50)
    codes = trained_models.inputs(trained_models.payments())[:50]
    coded = {name: codes[name].cat.codes.replace(-1, np.nan) for name in ("country", "channel", "mcc")}
    table = codes.assign(**coded).to_numpy(dtype=np.float32)
    sidecar = (converted.folder / "model.trees.json").read_bytes()
    got = attribution.contributions(sidecar, table).sum(axis=1)
    np.testing.assert_allclose(got, booster.predict(codes, raw_score=True), rtol=0, atol=1e-5)
    with converted.decision() as decision:
        decided = decision.decide(trained_models.requests(frame[:1], converted)[0], explain=True)
    assert decided.reasons


def test_two_conversions_of_one_model_give_the_same_bytes(converted: Converted, booster: Any, tmp_path: Path) -> None:
    again = convert(booster, data=trained_models.payments(), out=tmp_path / "again", target="fraud", name="fraud", rows=2000)
    for name in ("model.onnx", "model.trees.json", "decision.yaml", "fitted.json"):
        assert (again.folder / name).read_bytes() == (converted.folder / name).read_bytes(), name


def test_a_threshold_becomes_the_float32_that_is_not_above_it() -> None:
    text = "tree_sizes=100 20\nthreshold=0.1 3 -0.1 1e-300\nleaf_value=0.1\n"
    kept = from_lightgbm.rounded_down(text)
    assert kept.splitlines()[1] == "leaf_value=0.1"
    below = [float(number) for number in kept.splitlines()[0].partition("=")[2].split()]
    for exact, rounded in zip([0.1, 3.0, -0.1, 1e-300], below, strict=True):
        assert rounded == np.float32(rounded)
        assert rounded <= exact < float(np.nextafter(np.float32(rounded), np.float32(np.inf)))


def test_a_shifted_threshold_is_caught_and_the_rows_that_it_moved_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, booster: Any
) -> None:
    import onnx

    def wrong(booster: Any, name: str) -> tuple[bytes, str, list[str]]:
        content, output, cut = whole(booster, name)
        model = onnx.load_from_string(content)
        values = next(part for part in model.graph.node[0].attribute if part.name == "nodes_values")
        values.floats[0] += 1.0
        return model.SerializeToString(), output, cut

    whole = from_lightgbm.to_onnx
    monkeypatch.setattr(from_lightgbm, "to_onnx", wrong)
    with pytest.raises(ModelRefusedError, match=r"differs from the original: \d+ of .* rows") as refused:
        convert(booster, data=trained_models.payments(), out=tmp_path / "out", target="fraud")
    assert refused.value.code == "not_equal"
    assert "the worst has 0." in refused.value.message
    assert "out.failed/conversion.json" in str(refused.value.next_step)
    assert not (tmp_path / "out").exists()
    told = json.loads((tmp_path / "out.failed" / "conversion.json").read_text())
    assert told["comparison"]["worst"][0]["row"]


def test_classes_are_scored_one_at_a_time(tmp_path: Path) -> None:
    frame = trained_models.payments()
    three = frame["fraud"] + (frame["amount"] > 60)
    booster = trained_models.lightgbm_booster(10, objective="multiclass", num_class=3, target=three)
    with pytest.raises(UsageError, match=r"3 classes.*\n.*--score 0 to 2"):
        convert(booster, data=frame, out=tmp_path / "out", target="fraud")
    made = convert(booster, data=frame, out=tmp_path / "out", target="fraud", score=2, rows=500)
    expected = booster.predict(trained_models.inputs(frame))[:, 2]
    np.testing.assert_allclose(trained_models.scores(made, frame), expected, rtol=0, atol=1e-6)


def test_a_regression_is_held_to_a_bound_of_its_own_size(tmp_path: Path) -> None:
    frame = trained_models.payments()
    booster = trained_models.lightgbm_booster(10, objective="regression", target=frame["amount"] * 1000, categories=())
    data = frame.drop(columns=["fraud", *trained_models.TEXTS])
    made = convert(booster, data=data, out=tmp_path / "out", name="spend", terms=Terms(owner="risk@example.com"))
    assert made.result.comparison.relative == made.result.comparison.bound == 1e-5
    expected = booster.predict(data)
    np.testing.assert_allclose(trained_models.scores(made, data), expected, rtol=1e-5)
    assert made.decision().spec.owner == "risk@example.com"


def test_a_forest_answers_the_mean_of_its_trees(tmp_path: Path) -> None:
    booster = trained_models.lightgbm_booster(7, boosting="rf", bagging_fraction=0.7, bagging_freq=1)
    frame = trained_models.payments()
    made = convert(booster, data=frame, out=tmp_path / "out", target="fraud", rows=500)
    np.testing.assert_allclose(
        trained_models.scores(made, frame), booster.predict(trained_models.inputs(frame)), rtol=0, atol=1e-6
    )


def test_columns_without_names_are_taken_by_their_place(tmp_path: Path) -> None:
    import lightgbm

    random = np.random.default_rng(1)
    rows = random.normal(size=(400, 3))
    booster = lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1}, lightgbm.Dataset(rows, rows[:, 0] > 0), 5
    )
    data = pd.DataFrame(rows, columns=["a", "b", "c"])
    made = convert(booster, data=data, out=tmp_path / "out", name="plain")
    np.testing.assert_allclose(trained_models.scores(made, data), booster.predict(rows), rtol=0, atol=1e-6)
    with pytest.raises(InvalidInputError, match=r"trained on 3 unnamed columns, but the data has 2"):
        convert(booster, data=data[["a", "b"]], out=tmp_path / "less", name="plain")


def test_values_that_float32_cannot_tell_apart_are_counted_and_not_taken_for_a_bug(tmp_path: Path) -> None:
    import lightgbm

    close = 1.0 + np.arange(4000) * 1e-9  # 60 of them are one float32
    booster = lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_in_leaf": 5, "max_bin": 1000},
        lightgbm.Dataset(close.reshape(-1, 1), np.arange(4000) >= 2000, feature_name=["x"]),
        3,
    )
    with pytest.raises(ModelRefusedError, match="closer to thresholds than float32 can resolve"):
        convert(booster, data={"x": close}, out=tmp_path / "out", name="close")
    # Whoever registers what was refused takes its certificate along.
    assert read_certificate(tmp_path / "out.failed" / "equivalence.json").outcome == "refused"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"linear_tree": True, "categories": ()}, r"leaves are linear models.*\n.*without linear_tree"),
        ({"zero_as_missing": True}, r"zeros as missing.*\n.*without zero_as_missing"),
        ({"objective": "cross_entropy"}, r"onnxmltools cannot convert.*cross_entropy.*\n.*objective"),
    ],
)
def test_what_onnx_s_trees_cannot_say_is_refused_with_what_to_do(
    settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    booster = trained_models.lightgbm_booster(3, **settings)
    with pytest.raises(ModelRefusedError, match=said):
        convert(booster, data=trained_models.payments(), out=tmp_path / "out", target="fraud")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_cut_off_is_told_as_such(converted: Converted, folder: Path, tmp_path: Path) -> None:
    whole = (folder / "fraud.txt").read_bytes()
    (tmp_path / "cut.txt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelRefusedError, match=r"cut.txt is truncated"):
        convert(tmp_path / "cut.txt", data=folder / "payments.csv", out=tmp_path / "out", target="fraud")


def test_a_file_that_lightgbm_cannot_read_is_told_in_its_words(converted: Converted, folder: Path, tmp_path: Path) -> None:
    whole = (folder / "fraud.txt").read_text()
    (tmp_path / "bad.txt").write_text(re.sub(r"(?m)^split_feature=.*$", "", whole))
    with pytest.raises(ModelRefusedError, match=r"bad.txt"):
        convert(tmp_path / "bad.txt", data=folder / "payments.csv", out=tmp_path / "out", target="fraud")
