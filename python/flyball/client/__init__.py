"""The client: `flyball.Client` and `flyball.AsyncClient` speak the Open Inference Protocol to flyball and like servers."""

from flyball.client.async_client import AsyncClient
from flyball.client.client import Client
from flyball.client.decisions import Decided, DecidedRow, DecidedRows, Reason, UsedModel, UsedRemedy
from flyball.client.metadata import ModelMetadata, TensorMetadata

__all__ = [
    "AsyncClient",
    "Client",
    "Decided",
    "DecidedRow",
    "DecidedRows",
    "ModelMetadata",
    "Reason",
    "TensorMetadata",
    "UsedModel",
    "UsedRemedy",
]
