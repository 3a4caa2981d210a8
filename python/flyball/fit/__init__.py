"""Fitted parameters of transforms: learnt from rows, or taken over from a fitted scikit-learn pipeline.

Works on plain values; must not know how a decision is written or served.
"""

from flyball.fit.columns import Columns, apply
from flyball.fit.fitted import Fitted, read_fitted
from flyball.fit.learn import fit_transforms
from flyball.fit.rows import read_columns
from flyball.fit.sklearn_steps import Translated, from_sklearn

__all__ = ["Columns", "Fitted", "Translated", "apply", "fit_transforms", "from_sklearn", "read_columns", "read_fitted"]
