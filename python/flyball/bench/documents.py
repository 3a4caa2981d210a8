"""Reads scenarios and contracts from YAML or JSON files. Reports all faults at once, each with file and line.

Rules across keys are checked once every key is valid. Paths in a document are relative to it.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from flyball.bench.allowed_values import in_words, keys, schema_at, shown
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
_PAGE = "see docs/reference/scenario.md for every key"

Document = TypeVar("Document", bound=Part)


def scenario_names() -> list[str]:
    """The built-in scenarios."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def read_scenario(name_or_path: str) -> Scenario:
    """A built-in scenario by name, or one from a file: anything with a suffix or folder is a path."""
    if name_or_path.endswith(_SUFFIXES) or "/" in name_or_path:
        return _read(Path(name_or_path), Scenario, "scenario_refused")
    names = scenario_names()
    if name_or_path not in names:
        near = difflib.get_close_matches(name_or_path, names, n=1)
        raise ConfigRefusedError(
            f"unknown scenario {name_or_path!r}; built in: {', '.join(names)}",
            code="scenario_refused",
            next_step=f"did you mean {near[0]}?" if near else f"for a file, include its suffix:  {name_or_path}.yaml",
        )
    return _read(_FOLDER / f"{name_or_path}.yaml", Scenario, "scenario_refused")


def read_contract(path: str | Path) -> Contract:
    """A latency contract from its file."""
    return _read(Path(path), Contract, "contract_refused")


def _read(path: Path, kind: type[Document], code: str) -> Document:
    marked = _marked(path, code)
    faults = [_fault((path, line), location, None, "once", message) for location, line, message in marked.problems]
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
            raise ConfigRefusedError(f"{path} exceeds the limit of 1 MiB", code=code)
        # JSON may be indented with tabs, YAML may not; a tab cannot occur inside a JSON string.
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
    """Make the paths in a document relative to it, and report missing files."""
    faults = []
    for part, key in _FILES:
        owner = marked.value.get(part) if isinstance(marked.value, dict) else None
        if not isinstance(owner, dict) or not isinstance(owner.get(key), str):
            continue
        given, owner[key] = owner[key], str(path.parent / owner[key])
        if not Path(owner[key]).is_file():
            message = f"is {shown(given)}; file {owner[key]} does not exist"
            faults.append(_fault((path, marked.line((part, key))), (part, key), given, "an existing file", message))
    return faults


def _model_faults(path: Path, marked: Marked, error: ValidationError, kind: type[Part]) -> list[LineFault]:
    root = kind.model_json_schema()
    faults = []
    for item in error.errors(include_url=False):
        location = item["loc"]
        if item["type"] == "value_error":
            faults.append(_broken_rule(path, marked, location, item["ctx"]["error"]))
            continue
        found, allowed, message = _explained(dict(item), root)
        faults.append(_fault((path, marked.line(location)), location, found, allowed, message))
    return faults


def _broken_rule(path: Path, marked: Marked, part: Place, rule: ValueError) -> LineFault:
    """Reported at the first of its keys in the document, with the lines of the others."""
    locations = rule.locations if isinstance(rule, BrokenRuleError) else ()
    first, *others = [location for key in locations if (location := (*part, *key)) in marked.lines] or [part]
    lines = "".join(f"; {path_of(location)} is in line {marked.line(location)}" for location in others)
    return _fault((path, marked.line(first)), first, None, str(rule), f"{rule}{lines}")


def _explained(item: dict[str, Any], root: dict[str, Any]) -> tuple[object, str, str]:
    """A pydantic error as the value, what is allowed, and a message."""
    location = item["loc"]
    if item["type"] == "extra_forbidden":
        known = keys(schema_at(root, location[:-1]) or {})
        near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
        advice = f"did you mean {near[0]}?" if near else f"keys are {', '.join(known)}"
        return item["input"], f"one of the keys {', '.join(known)}", f"is an unknown key; {advice}"
    schema = schema_at(root, location)
    allowed = in_words(schema) if schema else str(item["msg"]).lower()
    if item["type"] == "missing":
        return None, allowed, f"is missing; allowed: {allowed}"
    return item["input"], allowed, f"is {shown(item['input'])}; allowed: {allowed}"


def _fault(at: tuple[Path, int], location: Place, found: object, allowed: str, message: str) -> LineFault:
    return LineFault(path_of(location), found, allowed, f"{at[0]}:{at[1]}", message)
