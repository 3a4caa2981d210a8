"""Reads scenarios and contracts from YAML or JSON files. All faults are told at once, each with its file and line.

Rules that join several keys are judged once every key is right by itself. Paths in a document are relative to it.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from flyball.bench.allowed_values import in_words, keys, schema_at
from flyball.bench.scenario import BrokenRuleError, Contract, Part, Scenario
from flyball.bench.trace import read_trace
from flyball.documents.faults import path_of
from flyball.documents.yaml_lines import BrokenYamlError, read_marked
from flyball.errors import ConfigRefusedError, LineFault

if TYPE_CHECKING:
    from flyball.documents.yaml_lines import Marked, Place

__all__ = ["read_contract", "read_scenario", "read_trace", "scenario_names"]

_FOLDER = Path(__file__).parent / "scenarios"
_SUFFIXES = (".yaml", ".yml", ".json")
_BYTES_MAX = 1024 * 1024
_FILES: tuple[Place, ...] = (("model", "path"), ("payloads", "file"), ("arrivals", "trace_file"))
_FOUND_CHARACTERS_MAX = 60
_PAGE = "see docs/reference/scenario.md for every key"

Document = TypeVar("Document", bound=Part)


def scenario_names() -> list[str]:
    """The scenarios that come with flyball."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def read_scenario(name_or_path: str) -> Scenario:
    """A scenario by its name, if it comes with flyball, or from a file: what has a suffix or a folder is one."""
    if name_or_path.endswith(_SUFFIXES) or "/" in name_or_path:
        return _read(Path(name_or_path), Scenario, "scenario_refused")
    names = scenario_names()
    if name_or_path not in names:
        near = difflib.get_close_matches(name_or_path, names, n=1)
        raise ConfigRefusedError(
            f"there is no scenario {name_or_path!r}; built in are {', '.join(names)}",
            code="scenario_refused",
            next_step=f"did you mean {near[0]}?" if near else f"for a file, write its suffix:  {name_or_path}.yaml",
        )
    return _read(_FOLDER / f"{name_or_path}.yaml", Scenario, "scenario_refused")


def read_contract(path: str | Path) -> Contract:
    """A latency contract from its file."""
    return _read(Path(path), Contract, "contract_refused")


def _read(path: Path, kind: type[Document], code: str) -> Document:
    marked = _marked(path, code)
    faults = [_fault((path, line), place, None, "once", words) for place, line, words in marked.problems]
    if isinstance(marked.value, dict):
        faults += _file_faults(path, marked)
    try:
        document = kind.model_validate(marked.value, strict=True)
    except ValidationError as error:
        faults += _model_faults(path, marked, error, kind)
    else:
        if not faults:
            return document
    faults.sort(key=lambda fault: int(fault.at.rpartition(":")[2]))
    count = f"{len(faults)} fault{'s' * (len(faults) != 1)}"
    raise ConfigRefusedError(f"{path} has {count}", code=code, faults=list(faults), next_step=_PAGE)


def _marked(path: Path, code: str) -> Marked:
    try:
        with path.open("rb") as file:
            raw = file.read(_BYTES_MAX + 1)
        if len(raw) > _BYTES_MAX:
            raise ConfigRefusedError(f"{path} is larger than 1 MiB, which no scenario needs", code=code)
        # JSON indented with tabs is JSON, but no YAML; within JSON's strings a tab cannot stand.
        text = raw.decode().replace("\t", " ") if path.suffix == ".json" else raw.decode()
        return read_marked(text)
    except OSError as error:
        raise ConfigRefusedError(f"cannot read {path}: {error.strerror}", code=code) from error
    except UnicodeDecodeError as error:
        raise ConfigRefusedError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}", code=code) from error
    except BrokenYamlError as error:
        fault = _fault((path, error.line), (), None, "a YAML document", error.why)
        raise ConfigRefusedError(f"{path} cannot be read", code=code, faults=[fault], next_step=_PAGE) from error


def _file_faults(path: Path, marked: Marked) -> list[LineFault]:
    """Makes the paths in a document relative to it, and finds those that lead nowhere."""
    faults = []
    for part, key in _FILES:
        owner = marked.value.get(part) if isinstance(marked.value, dict) else None
        if not isinstance(owner, dict) or not isinstance(owner.get(key), str):
            continue
        given, owner[key] = owner[key], str(path.parent / owner[key])
        if not Path(owner[key]).is_file():
            words = f"is {_shown(given)}; there is no file {owner[key]}"
            faults.append(_fault((path, marked.line((part, key))), (part, key), given, "a file that is there", words))
    return faults


def _model_faults(path: Path, marked: Marked, error: ValidationError, kind: type[Part]) -> list[LineFault]:
    root = kind.model_json_schema()
    faults = []
    for item in error.errors(include_url=False):
        place = item["loc"]
        if item["type"] == "value_error":
            faults.append(_broken_rule(path, marked, place, item["ctx"]["error"]))
            continue
        found, allowed, words = _judged(dict(item), root)
        faults.append(_fault((path, marked.line(place)), place, found, allowed, words))
    return faults


def _broken_rule(path: Path, marked: Marked, part: Place, rule: ValueError) -> LineFault:
    """Told at the first of its keys that stands in the document, with the lines of the others. The text is ours."""
    places = rule.places if isinstance(rule, BrokenRuleError) else ()
    first, *others = [place for key in places if (place := (*part, *key)) in marked.lines] or [part]
    lines = "".join(f"; {path_of(place)} is in line {marked.line(place)}" for place in others)
    return _fault((path, marked.line(first)), first, None, str(rule), f"{rule}{lines}")


def _judged(item: dict[str, Any], root: dict[str, Any]) -> tuple[object, str, str]:
    """What pydantic found, in our words: the value, what is allowed, and the sentence."""
    place = item["loc"]
    if item["type"] == "extra_forbidden":
        known = keys(schema_at(root, place[:-1]) or {})
        near = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.5)
        advice = f"did you mean {near[0]}?" if near else f"keys are {', '.join(known)}"
        return item["input"], f"one of the keys {', '.join(known)}", f"is no key here; {advice}"
    schema = schema_at(root, place)
    allowed = in_words(schema) if schema else str(item["msg"]).lower()
    if item["type"] == "missing":
        return None, allowed, f"is missing; allowed: {allowed}"
    return item["input"], allowed, f"is {_shown(item['input'])}; allowed: {allowed}"


def _fault(at: tuple[Path, int], place: Place, found: object, allowed: str, words: str) -> LineFault:
    return LineFault(path_of(place), found, allowed, f"{at[0]}:{at[1]}", words)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _FOUND_CHARACTERS_MAX else text[: _FOUND_CHARACTERS_MAX - 1] + "…"
