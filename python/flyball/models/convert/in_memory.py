"""Extracts a trained model in memory with the package that its class comes from.

Must not know files: notebooks pass the model itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.errors import InvalidInputError
from flyball.models.attribution.trained_by import trained_by
from flyball.models.convert.file_kinds import CAN_BE_READ

if TYPE_CHECKING:
    from flyball.models.convert.parts import Original
    from flyball.models.convert.table import Table


def original_of(model: Any, table: Table, *, name: str, element: int | None) -> Original:
    """The parts of a Booster, estimator, pipeline or module, and its answers."""
    match trained_by(model, ("lightgbm", "xgboost", "sklearn", "torch")):
        case "lightgbm":
            from flyball.models.convert import from_lightgbm

            return from_lightgbm.original(model, table, name=name, element=element)
        case "xgboost":
            from flyball.models.convert import from_xgboost

            return from_xgboost.original(model, table, name=name, element=element)
        case "sklearn":
            from flyball.models.convert import from_sklearn

            return from_sklearn.original(model, table, name=name, element=element)
        case "torch":
            from flyball.models.convert import from_torch

            return from_torch.original(model, table, name=name, element=element)
    raise InvalidInputError(
        f"a {type(model).__module__}.{type(model).__qualname__} is not a supported model",
        next_step=f"supported: {CAN_BE_READ}",
    )
