"""Fills and reads stores of features and windows with the data plane's code."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from flyball.native.boundary import boundary, call, native


def push_features(options: dict[str, Any], batches: Iterable[bytes]) -> dict[str, int]:
    """Fill a set of features, atomically if the target supports it: {"rows", "bytes"}."""
    with boundary():
        push = native.FeaturePush(json.dumps(options).encode())
        try:
            for batch in batches:
                push.put(batch)
            return TypeAdapter(dict[str, int]).validate_json(push.finish())
        finally:
            push.abandon()


def backfill_windows(options: dict[str, Any], batches: Iterable[bytes]) -> dict[str, int]:
    """Count past events in a decision's windows: {"events", "without_key"}."""
    with boundary():
        backfill = native.WindowBackfill(json.dumps(options).encode())
        try:
            for batch in batches:
                backfill.put(batch)
        finally:
            filled = backfill.finish()  # after a failure, too: it locks the windows' folder
        return TypeAdapter(dict[str, int]).validate_json(filled)


def feature_record(options: dict[str, Any], key: str) -> bytes | None:
    """The stored bytes of one record of a set, if the key exists."""
    return call(native.feature_record, json.dumps(options).encode(), key)
