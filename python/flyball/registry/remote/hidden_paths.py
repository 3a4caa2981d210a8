"""Takes the server's own paths out of what callers from elsewhere read; a file keeps its name.

A path is the server's where its first part is there on the server, so paths of the API and of a package's files stay as they
are. Must not know where the text comes from.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

# Up to what cannot be part of a path in a sentence; a URL's path is not looked at.
_PATH = re.compile(r"(?<![\w:/.~-])(?P<root>~?/|\.{1,2}/)?(?P<first>[\w.@+~-]+)/[^\s'\"`,;:()<>]*")

_FILE_URL = re.compile(r"\b(?:sqlite(?:\+\w+)?|file):/+[^\s'\"`,;()<>]*[^\s'\"`,;()<>:]")


def without_paths(text: str) -> str:
    """The text with `model.onnx` for `/srv/registry/.passing-x/folder/model.onnx`."""
    return _PATH.sub(_named, _FILE_URL.sub("a file", text))


def _named(found: re.Match[str]) -> str:
    root, path = found["root"] or "", found.group()
    first = Path(root).expanduser() / found["first"] if root else Path(found["first"])
    return (PurePosixPath(path).name or "a folder") if root == "~/" or first.exists() else path
