"""Chooses the configuration of each model: a client's, else its custom file, else config.pbtxt, else none.

Must not know what a configuration's fields mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flyball.triton.config import Config, empty, read_config, read_json
from flyball.triton.layout import config_text


@dataclass(frozen=True, slots=True)
class Configurations:
    """Where the models' configurations are."""

    name: str | None = None
    """With --model-config-name: a model with configs/<name>.pbtxt uses that file instead of config.pbtxt."""
    sent: Mapping[str, str] = field(default_factory=dict)
    """By model: the JSON text that a client sent with a load. It replaces the file."""

    def read(self, folder: Path) -> Config:
        """The configuration of the model in `folder`."""
        if folder.name in self.sent:
            return read_json(self.sent[folder.name])
        found = config_text(folder, self.name)
        if found is None:
            return empty()
        file, text = found
        return read_config(text, file)
