"""Renders docs/reference/server-config.md from the model.

Run:  python -m flyball.documents.config.reference > docs/reference/server-config.md
"""

from __future__ import annotations

import json
import sys
from typing import Any

from flyball.documents.config.server import ServerConfig

_HEAD = """\
# Server configuration

This page lists every key of the JSON document for `flyball serve --config FILE` and `flyballd --config FILE`. Every key
has a default, so `{}` is complete. Unknown keys are errors, and all faults are reported at once. Command-line flags
override the file.

<!-- rendered by `python -m flyball.documents.config.reference`; a test compares this page with the model -->

| key | unit | default | allowed | meaning |
|---|---|---|---|---|
"""


def render() -> str:
    """The whole page, as Markdown."""
    properties = ServerConfig.model_json_schema()["properties"]
    rows = [_row(key, schema) for key, schema in properties.items()]
    defaults = json.dumps(ServerConfig().model_dump(), indent=2)
    return _HEAD + "\n".join(rows) + f"\n\nAll defaults:\n\n```json\n{defaults}\n```\n"


def _row(key: str, schema: dict[str, Any]) -> str:
    default = json.dumps(schema["default"])
    meaning = schema["description"].replace("|", "\\|")
    return f"| `{key}` | {schema['unit']} | `{default}` | {schema['limit']} | {meaning} |"


if __name__ == "__main__":
    sys.stdout.write(render())
