"""The tamper corpus through the boundary; `crates/signing/tests/corpus.rs` verifies the same cases."""

import json
import os
import subprocess
import sys

import pytest

from flyball.errors import SignatureError
from flyball.signing import keys
from flyball.signing.manifest import model_digest
from flyball.signing.reasons import Reason
from flyball.signing.release import read_release
from flyball.signing.trust import Deployed, Package, Trust
from tests.support.serving import REPOSITORY

FOLDER = REPOSITORY / "tests/golden/signing"
CORPUS = json.loads((FOLDER / "cases.json").read_text())


def build(folder, described):
    folder.mkdir()
    for name in described.get("folders", ()):
        (folder / name).mkdir(parents=True)
    for name, content in described["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    for name, target in described.get("symlinks", {}).items():
        (folder / name).symlink_to(target)
    for name in described.get("pipes", ()):
        os.mkfifo(folder / name)


def text(case, key):
    name = case[key]
    return None if name is None else CORPUS["texts"][name].encode().ljust(case.get(f"{key}_bytes", 0))


def released(release):
    """The digests that a release names, so that they are right where a case is about something else."""
    try:
        stated = read_release(release or b"").predicate
    except SignatureError:
        return {"models": {}}
    return {"models": stated.models, "decision": stated.decision, "policy": stated.policy, "schema": stated.schema_}


def judge(case, folder):
    roots = [keys.load_public(pem) for pem in CORPUS["roots"][case["roots"]]]
    trust = Trust(text(case, "trust"), roots, case["now"], case["lowest_serial"])
    if "index" in case:
        trust.check_index(text(case, "index"), text(case, "index_signature"), case["now"])
    release = text(case, "release")
    digests = {**released(release), **case.get("digests", {})}
    if "models" in case:
        models = case["models"].items()
        digests["models"] = {version: model_digest(one["digest"], one.get("external_data", {})) for version, one in models}
    deployed = Deployed(case["deployment"], case["environment"], **digests)
    trust.admit(deployed, release, [Package(case["package_name"], folder, text(case, "bundle"))], case["now"])


@pytest.mark.parametrize("case", CORPUS["cases"], ids=lambda case: case["name"])
def test_a_case_of_the_corpus_has_the_answer_that_stands_there(case, tmp_path):
    build(tmp_path / "package", CORPUS["packages"][case["package"]])
    if case["expect"] == "ok":
        judge(case, tmp_path / "package")
        return
    with pytest.raises(SignatureError) as caught:
        judge(case, tmp_path / "package")
    assert caught.value.reason == case["expect"], caught.value
    assert caught.value.exit_code == 4


def test_every_reason_has_a_case():
    # What was taken before is remembered by servers, and no bytes can say it.
    assert {case["expect"] for case in CORPUS["cases"]} == {"ok", *Reason} - {Reason.INDEX_DOWNGRADE}


def test_the_closed_list_of_reasons_is_the_golden_one():
    assert json.loads((FOLDER / "reasons.json").read_text()) == [reason.value for reason in Reason]


def test_the_corpus_is_what_its_script_makes(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
    subprocess.run([sys.executable, FOLDER / "make.py", tmp_path], env=environment, check=True, timeout=60)
    for name in ("cases.json", "reasons.json"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), f"{name}: run tests/golden/signing/make.py"
