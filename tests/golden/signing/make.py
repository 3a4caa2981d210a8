"""Makes the tamper corpus, `cases.json` and `reasons.json`, which Python's and Rust's tests of signatures both read.

`PYTHONPATH=python python tests/golden/signing/make.py [FOLDER]`. Keys come from their names and signatures are deterministic
(RFC 6979), so a second run writes the same bytes. README.md says what the fields mean.
"""

import json
import sys
from pathlib import Path

import bundles
import parts
import releases

from flyball.signing.reasons import Reason


class Corpus:
    """The cases and the tables that they refer to by name."""

    def __init__(self):
        self.tables = {"roots": {}, "texts": {}, "packages": {}}
        self.cases = []
        self.plain = {
            "package": {"files": parts.FILES},
            "bundle": parts.bundle(),
            "release": parts.release_text(),
            "trust": parts.trust_text(),
            "roots": [parts.ROOT.pem],
        }

    def add(self, name, expect, about, **given):
        """A case: everything as it should be, apart from what is given."""
        assert expect == "ok" or expect in set(Reason), expect
        assert all(case["name"] != name for case in self.cases), name
        all_given = {**self.plain, **given}
        case = {"name": name, "about": about, "expect": expect, "now": parts.NOW, "lowest_serial": 7}
        case |= {"environment": "production", "deployment": "fraud", "package_name": "fraud@4"}
        for key, value in all_given.items():
            case[key] = self.refer(name, key, value)
        self.cases.append(case)

    def refer(self, name, key, value):
        if key == "roots":
            return self.named("roots", name, value)
        if key == "package":
            return self.named("packages", name, value)
        if isinstance(value, bytes):
            return self.named("texts", f"{key} of {name}", value.decode())
        return value

    def named(self, table, name, value):
        for known, content in self.tables[table].items():
            if content == value:
                return known
        self.tables[table][name] = value
        return name

    def document(self):
        return {"format": 1, **self.tables, "cases": self.cases}


def main(out):
    corpus = Corpus()
    bundles.add_to(corpus)
    releases.add_to(corpus)
    (out / "cases.json").write_text(json.dumps(corpus.document(), indent=1) + "\n")
    (out / "reasons.json").write_text(json.dumps([reason.value for reason in Reason], indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
