"""Serves model repositories in Triton's layout, and reports every configuration field that does not map."""

from flyball.triton.compile import Repository, read_repository, refuse_if_none_is_served
from flyball.triton.live import LiveRepository
from flyball.triton.report import ModelReport, Note, RepositoryReport

__all__ = [
    "LiveRepository",
    "ModelReport",
    "Note",
    "Repository",
    "RepositoryReport",
    "read_repository",
    "refuse_if_none_is_served",
]
