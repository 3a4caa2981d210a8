"""Checks documents with the data plane's code."""

from __future__ import annotations

import json
from typing import Literal

from flyball.errors import Fault
from flyball.native.boundary import call, native


def check_snapshot(kind: Literal["index", "deployment", "terms"], document: bytes) -> list[Fault]:
    """All faults of a snapshot document, sorted by path."""
    return [Fault.from_document(item) for item in json.loads(call(native.check_snapshot, kind, document))]


def check_config(kind: Literal["server", "callers"], document: bytes) -> list[Fault]:
    """All faults of a server's configuration or a callers' file, sorted by path."""
    return [Fault.from_document(item) for item in json.loads(call(native.check_config, kind, document))]
