"""Makes the unit tests' own modules importable under importlib mode, and has the fixtures that several of them share."""

import sys
from pathlib import Path

import models
import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def here(monkeypatch, tmp_path):
    """The working directory, with two models in it."""
    monkeypatch.chdir(tmp_path)
    models.linear(tmp_path, "a", seed=1)
    models.linear(tmp_path, "b", seed=2)
    return tmp_path
