"""Stores of features: filled from files of rows, and looked at. What reads them while a request waits is Rust.

Must not know decisions nor the command line.
"""

from flyball.feature_store.push import Pushed, push
from flyball.feature_store.target import Target, get

__all__ = ["Pushed", "Target", "get", "push"]
