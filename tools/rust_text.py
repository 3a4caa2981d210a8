"""A minimal Rust scanner for tidy: code, tests, and where functions end.

It blanks comments and literals instead of parsing, so that every rule sees the same line numbers
as the file. It must not know the rules themselves.
"""

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<line>//[^\n]*)
    | (?P<block>/\*)
    | (?P<raw>\b(?:b|c)?r(?P<hashes>\#*)")
    | (?P<string>(?:\b[bc])?")
    | (?P<char>(?:\bb)?'(?:\\(?:[^u]|u\{[0-9a-fA-F_]+\})|\\x[0-9a-fA-F]{2}|[^\\'\n])')
    """,
    re.VERBOSE,
)
_FUNCTION = re.compile(r"\bfn\s+(?:r#)?([A-Za-z_]\w*)")
_TEST_ITEM = re.compile(r"#\[cfg\(test\)\]")


@dataclass(frozen=True)
class Function:
    """One function with a body: its name, the line of its `fn`, and how many lines it takes."""

    name: str
    line: int
    lines: int


def code_only(source: str) -> str:
    """The source with comments and literals turned into spaces; newlines stay where they were."""
    pieces: list[str] = []
    at = 0
    while match := _TOKEN.search(source, at):
        pieces.append(source[at : match.start()])
        end = _end_of(source, match)
        pieces.append(_blank(source[match.start() : end]))
        at = end
    pieces.append(source[at:])
    return "".join(pieces)


def without_tests(code: str) -> str:
    """Blanked code with every `#[cfg(test)]` item blanked as well."""
    at = 0
    while match := _TEST_ITEM.search(code, at):
        end = _end_of_item(code, match.end())
        code = code[: match.start()] + _blank(code[match.start() : end]) + code[end:]
        at = end
    return code


def functions(code: str) -> list[Function]:
    """Every function that has a body, in blanked code."""
    found = []
    for match in _FUNCTION.finditer(code):
        end = _end_of_item(code, match.end())
        if code[end - 1] != "}":
            continue
        lines = code.count("\n", match.start(), end) + 1
        found.append(Function(match[1], line_of(code, match.start()), lines))
    return found


def line_of(text: str, offset: int) -> int:
    """The 1-based line on which an offset lies."""
    return text.count("\n", 0, offset) + 1


def _end_of(source: str, match: re.Match[str]) -> int:
    if match["block"]:
        return _end_of_block_comment(source, match.end())
    if match["raw"]:
        close = source.find('"' + match["hashes"], match.end())
        return len(source) if close < 0 else close + 1 + len(match["hashes"])
    if match["string"]:
        at = match.end()
        while at < len(source) and source[at] != '"':
            at += 2 if source[at] == "\\" else 1
        return min(at + 1, len(source))
    return match.end()


def _end_of_block_comment(source: str, at: int) -> int:
    depth = 1  # Rust's block comments nest
    while depth and (match := re.compile(r"/\*|\*/").search(source, at)):
        depth += 1 if match[0] == "/*" else -1
        at = match.end()
    return len(source) if depth else at


def _end_of_item(code: str, at: int) -> int:
    """Just past the `;` or the closing brace of the item that starts before `at`."""
    depth = 0
    for index in range(at, len(code)):
        char = code[index]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0 and char == "}":
                return index + 1
        elif char == ";" and depth == 0:
            return index + 1
    return len(code)


def _blank(text: str) -> str:
    return "".join("\n" if char == "\n" else " " for char in text)
