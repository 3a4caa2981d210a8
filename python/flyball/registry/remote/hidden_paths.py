"""Removes the server's paths from texts for remote callers; file names stay.

A path is the server's if its first part exists on the server, so paths of the API and of a package's files are unchanged.
Must not know where the text comes from.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

# Ends at a character that cannot be part of a path in a sentence; URLs are skipped.
_PATH = re.compile(r"(?<![\w:/.~-])(?P<root>~?/|\.{1,2}/)?(?P<first>[\w.@+~-]+)/[^\s'\"`,;:()<>]*")

_FILE_URL = re.compile(r"\b(?:sqlite(?:\+\w+)?|file):/+[^\s'\"`,;()<>]*[^\s'\"`,;()<>:]")


def without_paths(text: str) -> str:
    """The text with `model.onnx` for `/srv/registry/.passing-x/folder/model.onnx`."""
    return _PATH.sub(_named, _FILE_URL.sub("a file", text))


def _named(found: re.Match[str]) -> str:
    root, path = found["root"] or "", found.group()
    first = Path(root).expanduser() / found["first"] if root else Path(found["first"])
    return (PurePosixPath(path).name or "a folder") if root == "~/" or first.exists() else path
