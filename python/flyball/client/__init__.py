"""The client: `flyball.Client` speaks the Open Inference Protocol to flyball, and to any other server of it."""

from flyball.client.client import Client
from flyball.client.metadata import ModelMetadata, TensorMetadata

__all__ = ["Client", "ModelMetadata", "TensorMetadata"]
