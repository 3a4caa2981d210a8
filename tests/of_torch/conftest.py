"""Tests of PyTorch's conversion: `make test-torch` runs them where torch is installed, and nothing else collects them."""

import os

import pytest

collect_ignore_glob = [] if os.environ.get("FLYBALL_TORCH") else ["test_*.py"]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)
