"""The client: `flyball.Client` speaks the Open Inference Protocol to flyball and compatible servers."""

from flyball.client.client import Client
from flyball.client.decisions import Decided, DecidedRow, Reason, UsedModel, UsedRemedy
from flyball.client.metadata import ModelMetadata, TensorMetadata

__all__ = [
    "Client",
    "Decided",
    "DecidedRow",
    "ModelMetadata",
    "Reason",
    "TensorMetadata",
    "UsedModel",
    "UsedRemedy",
]
