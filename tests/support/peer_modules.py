"""Modules of bench/peers that run in the peers' own environments, loaded from their files as the peers do."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

from bench.peers.peers import ROOT

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


def common(name: str) -> ModuleType:
    """A module of the folder common; others import it by this name from then on."""
    return module(ROOT / "common" / f"{name}.py", name)


def module(path: Path, name: str) -> ModuleType:
    """A module from its file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # dataclasses look their module up
    spec.loader.exec_module(made)
    return made
