"""The notebook runs from its first cell to its last, and shows what its cells give.

FLYBALL_GOLDEN=write pytest tests/docs/test_notebook.py writes the outputs into it.
"""

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.printed_pages import masked
from tests.support.serving import REPOSITORY

NOTEBOOK = REPOSITORY / "examples" / "notebook" / "first-decision.ipynb"
BYTES_MAX = 40_000


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    """The notebook after a run in an empty folder, with this environment's Python and programs."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    metadata = notebook.metadata.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(folder / name))
        place = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, timeout=120, record_timing=False, coalesce_streams=True, resources=place).execute()
    notebook.metadata = metadata  # the kernel adds its version
    return notebook


@pytest.mark.timeout(300)
def test_the_notebook_runs_and_shows_what_its_cells_give(executed: nbformat.NotebookNode) -> None:
    if os.environ.get("FLYBALL_GOLDEN") == "write":
        nbformat.write(executed, NOTEBOOK)
        return
    printed = nbformat.read(NOTEBOOK, as_version=4)
    for cell, before in zip(executed.cells, printed.cells, strict=True):
        assert shown(cell) == shown(before), f"{before.source}\nrun  FLYBALL_GOLDEN=write pytest tests/docs/test_notebook.py"


@pytest.mark.timeout(300)
def test_the_notebook_ends_with_reasons_and_a_verified_journal(executed: nbformat.NotebookNode) -> None:
    text = "\n".join(line for cell in executed.cells for line in shown(cell))
    assert "large payment abroad" in text
    assert re.search(r"^verified # records", text, re.MULTILINE)


def test_the_notebook_is_small() -> None:
    assert NOTEBOOK.stat().st_size < BYTES_MAX


def shown(cell: nbformat.NotebookNode) -> list[str]:
    """The lines of a cell's outputs, without what differs from run to run; progress on stderr comes at any time."""
    outputs = [one for one in cell.get("outputs", []) if one.get("name") != "stderr"]
    texts = [text for one in outputs for _, text in sorted((one.get("data") or {"text": one.text}).items())]
    return [masked(line) for text in texts for line in text.splitlines()]
