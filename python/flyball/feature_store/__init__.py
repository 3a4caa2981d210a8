"""Fills and inspects feature stores. Rust reads them during requests.

Must not know decisions nor the command line.
"""

from flyball.feature_store.push import Pushed, push
from flyball.feature_store.target import Target, get

__all__ = ["Pushed", "Target", "get", "push"]
