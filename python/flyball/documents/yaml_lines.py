"""Reads YAML as plain values with line numbers, for error messages.

Supports the core types of YAML 1.2 in one document; no custom tags and no aliases, so that a document is never larger than
its text. Needs PyYAML. Must not know what documents mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

Place = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_TYPES = {
    "null": (r"~|null|Null|NULL|", "~nN"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+", "-+0123456789"),
    "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+.0123456789"),
}


class BrokenYamlError(Exception):
    """Unparsable text: the line, and why."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line
        self.why = why


@dataclass(slots=True)
class Marked:
    """A document's value, the line of each path in it, and YAML problems by path and line."""

    value: object = None
    lines: dict[Place, int] = field(default_factory=lambda: {(): 1})
    problems: list[tuple[Place, int, str]] = field(default_factory=list)

    def line(self, place: Place) -> int:
        """The line of a path, or of its nearest existing parent."""
        while place not in self.lines:
            place = place[:-1]
        return self.lines[place]


def read_marked(text: str) -> Marked:
    """Parse one document; raises `BrokenYamlError` if the text is not YAML."""
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise BrokenYamlError(_line_of(error), _why(error)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BrokenYamlError(line, f"is not YAML: the character U+{error.character:04X} is not allowed") from error
    except RecursionError as error:
        raise BrokenYamlError(1, "is nested too deeply") from error
    marked = Marked()
    if root is not None:
        marked.value = _plain(root, (), marked)
    return marked


class Dumper(yaml.SafeDumper):
    """Writes YAML for `read_marked`: texts that look like another type in YAML 1.1 or 1.2 are quoted."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never write aliases: `read_marked` refuses them."""
        del data
        return True


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - YAML 1.1 reads `on` as true and 1:30 as 90

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise BrokenYamlError(mark.line + 1, "aliases are not supported; write the value out")
        return super().compose_node(parent, index)


for _name, (_pattern, _first) in _TYPES.items():
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"^(?:{_pattern})$"), [*_first, ""])
    Dumper.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"^(?:{_pattern})$"), [*_first, ""])


def _plain(node: Any, place: Place, marked: Marked) -> object:
    """The value of a node; records lines and problems in `marked`."""
    marked.lines.setdefault(place, node.start_mark.line + 1)
    kind = node.tag.removeprefix(_TAG)
    if kind not in (*_TYPES, "str", "seq", "map"):
        marked.problems.append((place, marked.lines[place], f"has the tag {node.tag}; tags are not supported"))
    if isinstance(node, yaml.ScalarNode):
        return _scalar(kind, node.value)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*place, index), marked) for index, item in enumerate(node.value)]
    values: dict[str, object] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
        if key is None:
            marked.problems.append((place, line, "a key is a word, not a list or an object"))
            continue
        here = (*place, key)
        if key in values:
            marked.problems.append((here, line, f"is duplicated; first in line {marked.lines[here]}"))
            continue
        marked.lines[here] = line
        values[key] = _plain(value_node, here, marked)
    return values


def _scalar(kind: str, text: str) -> object:
    try:
        match kind:
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return int(text)
            case "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        pass  # `!!int seven`, or too many digits: the validation of the field reports it
    return text


def _line_of(error: yaml.MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return mark.line + 1 if mark else 1


def _why(error: yaml.MarkedYAMLError) -> str:
    if error.problem == "but found another document":
        return "another document begins here; a file has one"
    if "'\\t'" in str(error.problem):
        return "is not YAML: a tab is not allowed here; indent with spaces"
    return f"is not YAML: {error.problem or error.context}"
