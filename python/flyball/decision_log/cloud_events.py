"""Converts records to CloudEvents 1.0, in flyball's or KServe's format, without personal data.

Pure functions over records. Must not know where events are sent.
"""

from __future__ import annotations

import json
from typing import Any

from flyball.decision_log.read.columns import plain_features, plain_input

BATCH = "application/cloudevents-batch+json"
_NO_ID = "00000000-0000-0000-0000-000000000000"
_OURS = ("personal", "personal_fields", "personal_features", "personal_values")


def flyball_events(node: str, record: dict[str, Any]) -> list[dict[str, Any]]:
    """One event per record."""
    left_out = (*_OURS, *record.get("personal_values", ()))
    data = {name: value for name, value in record.items() if name not in left_out}
    if "input" in record:
        data["input"] = plain_input(record)
    if "features" in record:
        data["features"] = plain_features(record)
    event = {**_head(node, record), "type": f"dev.flyball.{record['kind']}.v1", "data": data}
    event["sequence"] = f"{record['seq']:020d}"  # CloudEvents' extension: the order of events of one source
    return [event]


def kserve_events(node: str, record: dict[str, Any]) -> list[dict[str, Any]]:
    """A request and a response event with the same id per decision, as KServe's logger sends; none for other records."""
    if record["kind"] != "decision":
        return []
    answered = {name: record.get(name) for name in ("outcome", "score", "band", "reasons", "route", "variant")}
    bodies = {"request": plain_input(record), "response": answered}
    named = {
        "inferenceservicename": record["decision"], "namespace": "", "component": "predictor", "endpoint": "",
        "recordedtime": record["time"],
    }  # fmt: skip
    head = {**_head(node, record), **named, "id": record["id"]}
    return [{**head, "type": f"org.kubeflow.serving.inference.{half}", "data": body} for half, body in bodies.items()]


def batch_of(events: list[dict[str, Any]]) -> bytes:
    """Encode a body of `application/cloudevents-batch+json`."""
    return json.dumps(events, ensure_ascii=False, separators=(",", ":")).encode()


def _head(node: str, record: dict[str, Any]) -> dict[str, Any]:
    head = {
        "specversion": "1.0", "id": f"{node}/{record['seq']}", "source": f"urn:flyball:journal:{node}",
        "datacontenttype": "application/json",
    }  # fmt: skip
    if "time" in record:
        head["time"] = record["time"]
    if record.get("id") not in (None, _NO_ID):
        head["subject"] = record["id"]
    return head
