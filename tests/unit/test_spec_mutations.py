"""Decisions that were changed at random, from seeds: each loads whole or is refused whole, and refusals end the search.

`make test` takes a few hundred, `make test-full` all ten thousand.
"""

import copy
import os
import random
import re

import pytest
import yaml

import flyball as fb
from tests.support.decision_folders import WHOLE, folder, fraud_model

COUNT = 10_000 if os.environ.get("FLYBALL_TESTS") == "full" else 300
_MODELS = """\
models:
  first:  {path: fraud.onnx, score: "probabilities[1]", explain: {ablation: {baseline: [0, 0, 0, 0, 0, 0, 0, 0]}}}
  second: {path: two.onnx, columns: [first.score, amount], score: "probabilities[1]"}
variants: {chain: [first, second], both: {models: [first, second], weights: {first: 0.25, second: 0.75}}}
route: {split: {both: 0.1}, sticky: card_id, fallback: both}
idempotency: {window_s: 60}
record: {durability: sync, sample: 0.5, mask: [country]}
"""
_SEGMENTS = '  segments: [{when: amount > 10.0, bands: {pass: "< 0.5", reject: ">= 0.5"}}]\n'
_POLICY = WHOLE[WHOLE.index("policy:\n") :].replace("  bands:", f"{_SEGMENTS}  bands:")
SEVERAL = WHOLE[: WHOLE.index("model:\n")] + _MODELS + _POLICY
ODD = [
    None, True, False, 0, 1, -1, 2**63, 10**400, 1.5, float("nan"), float("inf"), -0.0, "", " ", "x", "amount", "score",
    "0..1", "< 0.5", "10m", "ü" * 70, "a\nb", "\x00", "\ud7ff", "x" * 5000, [], {}, [[]], [1, "a", None], {"a": 1}, {"": ""},
    {"of": []}, "1 +", "amount >", "has(", "(" * 200, "true", "fraud.onnx", "../fraud.onnx", "/",
    "count() by card_id last 1h",
]  # fmt: skip


def places(value, here=()):
    """Every place of a document, the whole first."""
    yield here
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*here, key))


def at(value, place):
    for key in place:
        value = value[key]
    return value


def mutated(value, dice):
    """A document with one to three places changed."""
    value = copy.deepcopy(value)
    for _ in range(dice.randint(1, 3)):
        place = dice.choice(list(places(value))[1:])
        owner, key = at(value, place[:-1]), place[-1]
        match dice.randrange(6):
            case 0:
                del owner[key]
            case 1 if isinstance(owner, dict):
                owner[f"{key}{dice.choice('xs_')}" if dice.random() < 0.5 else str(key)[1:]] = owner.pop(key)
            case 2 if isinstance(owner, list):
                owner.insert(key, copy.deepcopy(dice.choice(owner)))
            case 3:
                owner[key] = copy.deepcopy(at(value, dice.choice(list(places(value)))))
            case 4 if isinstance(owner[key], str) and owner[key]:
                cut = dice.randrange(len(owner[key]))
                owner[key] = owner[key][:cut] + dice.choice(["", "x", " ", "(", ".", "0", "ß"]) + owner[key][cut + 1 :]
            case _:
                owner[key] = copy.deepcopy(dice.choice(ODD))
        if len(list(places(value))) < 2:
            break
    return value


def scrambled(text, dice):
    """A text with a few characters or lines changed."""
    lines = text.splitlines()
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(len(lines))
        line = lines[place]
        cut = dice.randrange(len(line) + 1)
        match dice.randrange(4):
            case 0:
                lines[place] = line[:cut] + dice.choice("{}[]:,\"'#&*!|>%@- \t0x") + line[cut:]
            case 1:
                lines[place] = line[:cut] + line[cut + 1 :]
            case 2:
                lines[place] = lines[dice.randrange(len(lines))]
            case _:
                lines[place] = " " * dice.randint(0, 6) + line.lstrip()
    return "\n".join(lines)


def text_of(value):
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    path = tmp_path_factory.mktemp("mutations")
    folder(path)
    fraud_model(path, "two", 2)
    return path


@pytest.mark.parametrize("text", [WHOLE, SEVERAL], ids=["one model", "several"])
def test_the_decisions_that_are_mutated_are_good(text, base):
    fb.Decision.from_yaml(text, base=base).check()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("text", [WHOLE, SEVERAL], ids=["one model", "several"])
def test_a_mutated_decision_loads_whole_or_is_refused_with_path_and_fix(text, base):
    value = yaml.safe_load(text)
    refused = 0
    for seed in range(COUNT // 2):
        dice = random.Random(seed)
        changed = scrambled(text, dice) if seed % 4 == 0 else text_of(mutated(value, dice))
        try:
            decision = fb.Decision.from_yaml(changed, base=base)
            checked = decision.check()
        except fb.DecisionRefusedError as error:
            refused += 1
            judge(seed, changed, error)
        else:
            assert checked.stages, f"seed {seed}: a decision without stages"
            assert fb.Decision.from_yaml(decision.to_yaml(), base=base) == decision, f"seed {seed}"
    assert refused > COUNT // 4


def judge(seed, text, error):
    assert error.faults, f"seed {seed}: refused without a fault: {error}"
    last = text.count("\n") + 1
    for fault in error.faults:
        where = re.fullmatch(r"decision\.yaml:(\d+)", fault.at)
        assert where, f"seed {seed}: {fault.at}"
        assert 1 <= int(where[1]) <= last, f"seed {seed}: {fault}"
        assert fault.text.strip(), f"seed {seed}: {fault}"
        assert fault.allowed.strip(), f"seed {seed}: {fault}"
        assert len(str(fault)) < 2000, f"seed {seed}: {fault}"
