"""The JSON Schema of the newest format, exported from the models: one file for both documents, under `$defs`."""

from __future__ import annotations

import json

from pydantic.json_schema import models_json_schema

from flyball.documents.snapshot.models import FORMAT, Deployment, Index


def schema_text() -> str:
    """The file docs/reference/snapshot-v<N>.schema.json, as text."""
    _, schema = models_json_schema([(Index, "validation"), (Deployment, "validation")])
    for part in (Index, Deployment):
        # Readers take older formats too, but their keys are others: they stand in the files of those formats.
        schema["$defs"][part.__name__]["properties"]["format"]["minimum"] = FORMAT
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"flyball snapshot, format {FORMAT}",
        "description": "An index, and one document for each deployment. Duplicates, routes and batches are judged beyond.",
        "oneOf": [{"$ref": "#/$defs/Index"}, {"$ref": "#/$defs/Deployment"}],
        **schema,
    }
    return json.dumps(document, indent=2) + "\n"
