"""An XGBoost model becomes a folder whose decision answers as the booster does; what cannot be said is refused."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flyball.errors import MissingExtraError, ModelRefusedError, UsageError
from flyball.models.convert import convert
from tests.support import trained_models


def predicted(booster: Any, rows: pd.DataFrame) -> Any:
    import xgboost

    return booster.predict(xgboost.DMatrix(rows, enable_categorical=True))


@pytest.mark.parametrize("form", ["json", "ubj"])
def test_the_decision_answers_as_the_booster_does_also_for_gaps(form: str, tmp_path: Path) -> None:
    booster = trained_models.xgboost_booster()
    path = tmp_path / f"fraud.{form}"
    booster.save_model(path)
    data = trained_models.saved(trained_models.payments(), tmp_path / "payments.csv")
    made = convert(path, data=data, out=tmp_path / "out", target="fraud", rows=1500)
    fresh = trained_models.payments(600, seed=3)
    fresh.loc[::7, "distance"] = np.nan
    expected = predicted(booster, trained_models.inputs(fresh))
    np.testing.assert_allclose(trained_models.scores(made, fresh), expected, rtol=0, atol=1e-6)
    assert made.result.comparison.by_kind.keys() == {"given", "random", "edge"}
    assert made.document["explained_by"] == "trees"


def test_a_category_that_training_has_not_seen_has_a_code_outside_all_sets(tmp_path: Path) -> None:
    import xgboost

    booster = trained_models.xgboost_booster()
    frame = trained_models.payments()
    made = convert(booster, data=frame, out=tmp_path / "out", target="fraud", name="fraud", rows=800)
    rows = trained_models.inputs(frame)
    codes = rows.assign(**{name: rows[name].cat.codes.replace(-1, np.nan) for name in ("country", "channel", "mcc")})
    codes["country"] = 4
    named = {"feature_names": booster.feature_names, "feature_types": booster.feature_types}
    expected = booster.predict(xgboost.DMatrix(codes.to_numpy(dtype=np.float32), enable_categorical=True, **named))
    np.testing.assert_allclose(trained_models.scores(made, frame.assign(country="nowhere")), expected, rtol=0, atol=1e-6)


def test_training_that_stopped_early_is_used_up_to_its_best_round(tmp_path: Path) -> None:
    import xgboost

    frame = trained_models.payments().drop(columns=trained_models.TEXTS)
    rows, target = frame.drop(columns="fraud"), frame["fraud"]
    model = xgboost.XGBClassifier(n_estimators=200, early_stopping_rounds=3, n_jobs=1, learning_rate=0.5)
    model.fit(rows[:800], target[:800], eval_set=[(rows[800:], target[800:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    made = convert(model, data=frame, out=tmp_path / "out", target="fraud", name="fraud", rows=800)
    np.testing.assert_allclose(trained_models.scores(made, frame), model.predict_proba(rows)[:, 1], rtol=0, atol=1e-6)
    assert "stopped early" in made.document["notes"][0]


def test_a_booster_whose_training_stopped_early_answers_by_all_its_rounds_and_the_best_is_named(tmp_path: Path) -> None:
    import xgboost

    frame = trained_models.payments().drop(columns=trained_models.TEXTS)
    rows = frame.drop(columns="fraud")
    first, last = (xgboost.DMatrix(rows[part], frame["fraud"][part]) for part in (slice(800), slice(800, None)))
    settings = {"objective": "binary:logistic", "nthread": 1, "learning_rate": 0.5}
    booster = xgboost.train(settings, first, 50, evals=[(last, "last")], early_stopping_rounds=3, verbose_eval=False)
    best, rounds = booster.best_iteration + 1, booster.num_boosted_rounds()
    assert best < rounds
    booster.save_model(tmp_path / "fraud.json")
    opened = xgboost.Booster(model_file=tmp_path / "fraud.json")  # as a file is opened: it knows its best round, too
    made = convert(opened, data=frame, out=tmp_path / "out", target="fraud", name="fraud", rows=400)
    np.testing.assert_allclose(trained_models.scores(made, frame), predicted(booster, rows), rtol=0, atol=1e-6)
    assert f"first {best} of {rounds} rounds" in made.document["notes"][0]
    assert f"booster[:{best}]" in made.document["notes"][0]
    cut = convert(booster[:best], data=frame, out=tmp_path / "cut", target="fraud", name="fraud", rows=400)
    assert not cut.document["notes"]
    expected = booster.predict(xgboost.DMatrix(rows), iteration_range=(0, best))
    np.testing.assert_allclose(trained_models.scores(cut, frame), expected, rtol=0, atol=1e-6)


def test_a_ranking_is_no_matter_of_classes(tmp_path: Path) -> None:
    import xgboost

    frame = trained_models.payments()[["amount", "mcc", "fraud"]]
    rows = frame[["amount", "mcc"]]
    model = xgboost.XGBRanker(n_estimators=5, n_jobs=1).fit(rows, frame["fraud"], qid=np.repeat(np.arange(12), 100))
    made = convert(model, data=frame, out=tmp_path / "out", target="fraud", name="rank", rows=500)
    np.testing.assert_allclose(trained_models.scores(made, frame), model.predict(rows), rtol=0, atol=1e-6)


@pytest.mark.parametrize("objective", ["multi:softprob", "reg:squarederror", "count:poisson"])
def test_classes_and_regressions_are_taken_too(objective: str, tmp_path: Path) -> None:
    frame = trained_models.payments()
    classes = {"num_class": 3} if objective.startswith("multi") else {}
    target = frame["fraud"] + (frame["amount"] > 60)
    booster = trained_models.xgboost_booster(8, objective=objective, target=target, **classes)
    made = convert(booster, data=frame, out=tmp_path / "out", target="fraud", name="fraud", score=2 if classes else None)
    expected = predicted(booster, trained_models.inputs(frame))
    expected = expected[:, 2] if classes else expected
    np.testing.assert_allclose(trained_models.scores(made, frame), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"booster": "dart", "rate_drop": 0.5}, r"DART.*\n.*gbtree"),
        ({"booster": "gblinear", "categories": ()}, r"gblinear"),
        ({"objective": "multi:softmax", "num_class": 2}, r"multi:softmax.*\n.*multi:softprob"),
    ],
)
def test_what_onnx_s_trees_cannot_say_is_refused_with_what_to_do(
    settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    booster = trained_models.xgboost_booster(3, **settings)
    with pytest.raises(ModelRefusedError, match=said):
        convert(booster, data=trained_models.payments(), out=tmp_path / "out", target="fraud")


def test_a_value_that_stands_for_missing_is_refused(tmp_path: Path) -> None:
    import xgboost

    frame = trained_models.payments()[["amount", "mcc", "fraud"]]
    model = xgboost.XGBClassifier(n_estimators=2, missing=-1, n_jobs=1).fit(frame[["amount", "mcc"]], frame["fraud"])
    with pytest.raises(ModelRefusedError, match=r"treats -1 as missing.*\n.*missing=nan"):
        convert(model, data=frame, out=tmp_path / "out", target="fraud")


def lost_by_xgboost(texts: list[str]) -> bool:
    """Whether this XGBoost damages such categories: it cuts their bytes by lengths in characters."""
    import xgboost

    frame = pd.DataFrame({"kind": pd.Categorical(texts * 4, categories=texts)})
    data = xgboost.DMatrix(frame, np.arange(len(frame)), enable_categorical=True)
    booster = xgboost.train({"nthread": 1}, data, 1)
    _, stored = booster.get_categories(export_to_arrow=True).to_arrow()[0]
    return [bytes(value) for value in stored.cast("binary").to_pylist()] != [text.encode() for text in texts]


def trained_on_kinds(texts: list[str]) -> tuple[Any, pd.DataFrame]:
    """A classifier with one categorical column, and its rows."""
    import xgboost

    random = np.random.default_rng(11)
    kinds = pd.Series(random.choice(texts, 600), dtype=object)
    frame = pd.DataFrame({"amount": random.exponential(50, 600), "kind": kinds})
    frame["fraud"] = ((frame["kind"] == texts[0]) | (frame["amount"] > 120)).astype(int)
    rows = frame[["amount", "kind"]].assign(kind=frame["kind"].astype("category"))
    model = xgboost.XGBClassifier(n_estimators=4, n_jobs=1, enable_categorical=True).fit(rows, frame["fraud"])
    return model, frame


def test_categories_that_xgboost_has_damaged_are_refused_with_what_to_do(tmp_path: Path) -> None:
    texts = ["médical", "café", "retail"]
    if not lost_by_xgboost(sorted(texts)):
        pytest.skip("this XGBoost stores categories that are not ASCII")
    model, frame = trained_on_kinds(texts)
    with pytest.raises(ModelRefusedError, match=r"(?s)damaged the categories of 'kind'.*'médical'.*\n.*ASCII") as caught:
        convert(model, data=frame, out=tmp_path / "out", target="fraud", name="fraud")
    assert caught.value.next_step is not None
    assert "an XGBoost newer than 3.2" in caught.value.next_step
    assert not (tmp_path / "out").exists()


def test_ascii_categories_are_taken_although_the_data_has_others_that_training_has_not_seen(tmp_path: Path) -> None:
    model, frame = trained_on_kinds(["medical", "cafe", "retail"])
    other = frame.assign(kind=frame["kind"].mask(frame.index % 7 == 0, "école"))
    made = convert(model, data=other, out=tmp_path / "out", target="fraud", name="fraud")
    rows = frame[["amount", "kind"]].assign(kind=frame["kind"].astype("category"))
    np.testing.assert_allclose(trained_models.scores(made, frame), model.predict_proba(rows)[:, 1], rtol=0, atol=1e-6)


def test_files_that_are_cut_off_are_told_as_such(tmp_path: Path) -> None:
    data = trained_models.saved(trained_models.payments(), tmp_path / "payments.csv")
    for form in ("json", "ubj"):
        path = tmp_path / f"fraud.{form}"
        trained_models.xgboost_booster(2).save_model(path)
        path.write_bytes(path.read_bytes()[:-40])
        with pytest.raises(ModelRefusedError, match=rf"fraud.{form} is truncated"):
            convert(path, data=data, out=tmp_path / "out", target="fraud")


def test_a_class_that_is_not_there_is_no_score(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no element 2"):
        convert(
            trained_models.xgboost_booster(2), data=trained_models.payments(), out=tmp_path / "out", target="fraud", score=2
        )


def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxmltools.convert", None)
    with pytest.raises(MissingExtraError, match=r"needs onnxmltools .*\n.*pip install 'flyball\[xgboost\]'"):
        convert(trained_models.xgboost_booster(2), data=trained_models.payments(), out=tmp_path / "out", target="fraud")
