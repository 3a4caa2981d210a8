"""The page about artifacts says what the code says."""

import re

from flyball.artifacts import blobs, bucket, gc, packages, transfer
from tests.support.serving import REPOSITORY

PAGE = (REPOSITORY / "docs" / "reference" / "artifacts.md").read_text()


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    units = {"MiB": 1 << 20, "GiB": 1 << 30}
    rows = re.findall(r"^\| ((?:files|bytes|parts) of .+) \| ([\d,]+)(?: (\w+))? \|$", PAGE, re.MULTILINE)
    written = {what: int(number.replace(",", "")) * units.get(unit, 1) for what, number, unit in rows}
    assert written == {
        "files of a package": packages.FILES_MAX,
        "bytes of a package": packages.PACKAGE_BYTES_MAX,
        "bytes of a file": blobs.BLOB_BYTES_MAX + 1,
        "bytes of `meta.json`": packages.META_BYTES_MAX,
        "parts of a file's name": packages.DEPTH_MAX,
        "bytes of a file's name": packages.NAME_BYTES_MAX,
    }
    assert f"A file has {transfer.VERSIONS_MAX} versions at most" in PAGE
    assert (gc.GRACE.days, gc.GRACE_MIN.seconds) == (1, 3600)


def test_every_code_of_the_page_is_one_of_the_code() -> None:
    folder = REPOSITORY / "python" / "flyball"
    source = "".join(path.read_text() for path in [*(folder / "artifacts").glob("*.py"), folder / "errors.py"])
    raised = set(re.findall(r'code ?= ?"((?:artifacts?|bundle)_\w+)"', source))
    assert set(re.findall(r"^\| `(\w+)` \| \d \|", PAGE, re.MULTILINE)) == raised


def test_the_types_of_the_page_are_those_of_the_code() -> None:
    for words in (packages.PACKAGE_TYPE, packages.META_TYPE, packages.ROOT, packages.TITLE, transfer.PAYLOAD_TYPE):
        assert words in PAGE
    assert f"for {bucket.PATIENCE_S} s" in PAGE
