"""Reads a decision from a YAML or JSON file. Reports all structural faults at once, each with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from flyball.decision.spec.faults import DecisionRefusedError, Origin, fault_at, refusal, shape_faults
from flyball.decision.spec.spec import Spec
from flyball.documents.faults import path_of
from flyball.documents.near_files import no_such_file
from flyball.documents.yaml_lines import BrokenYamlError, Marked, read_marked
from flyball.errors import LineFault, plain_cause

_BYTES_MAX = 1024 * 1024


def read_spec(path: Path) -> tuple[Spec, Origin]:
    """Read a decision and its origin from a file."""
    return read_text(_text(path), path)


def read_text(text: str, path: Path) -> tuple[Spec, Origin]:
    """Read a decision from text; `path` is for messages."""
    try:
        marked = read_marked(text)
    except BrokenYamlError as error:
        where = Origin(path, Marked(lines={(): error.line}))
        raise refusal(where, [fault_at(where, (), None, "a YAML document", error.why)]) from error
    except RecursionError as error:
        where = Origin(path, Marked())
        raise refusal(where, [fault_at(where, (), None, "a YAML document", "is nested too deeply")]) from error
    origin = Origin(path, marked)
    return validated(marked.value, origin), origin


def validated(value: Any, origin: Origin) -> Spec:
    """Validate the structure; raises with every fault."""
    problems = origin.marked.problems if origin.marked else []
    faults = [LineFault(path_of(place), None, "once", f"{origin.path}:{line}", text) for place, line, text in problems]
    try:
        spec = Spec.model_validate(value)
    except ValidationError as error:
        raise refusal(origin, [*faults, *shape_faults(origin, error, Spec)]) from error
    except RecursionError as error:
        raise refusal(origin, [fault_at(origin, (), None, "a decision", "is nested too deeply")]) from error
    if faults:
        raise refusal(origin, faults)
    return spec


def _spec_in(folder: Path) -> str:
    specs = sorted(folder.glob("*.yaml"))
    return f"give the file:  {specs[0]}" if len(specs) == 1 else "give the decision's YAML file"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_BYTES_MAX + 1)
        if len(raw) > _BYTES_MAX:
            raise DecisionRefusedError(f"{path} is larger than 1 MiB")
        # JSON may be indented with tabs, YAML may not; JSON strings cannot contain a tab.
        return raw.decode().replace("\t", " ") if path.suffix == ".json" else raw.decode()
    except IsADirectoryError as error:
        raise DecisionRefusedError(f"{path} is a directory, not a decision in YAML", next_step=_spec_in(path)) from error
    except OSError as error:
        raise DecisionRefusedError(
            f"cannot read {path}: {no_such_file(path) if isinstance(error, FileNotFoundError) else plain_cause(error)}",
            next_step="give the decision's YAML file",
        ) from error
    except UnicodeDecodeError as error:
        if path.suffix == ".onnx":
            step = f"flyball serve {path}   or name it in a decision:  model: {{path: {path.name}}}"
            raise DecisionRefusedError(f"{path} is a model, not a decision in YAML", next_step=step) from error
        raise DecisionRefusedError(
            f"{path} is not text in UTF-8: {error.reason} at byte {error.start}", next_step="give the decision's YAML file"
        ) from error
