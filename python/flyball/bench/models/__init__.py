"""Seeded models for the demo, the claims and the benchmarks, identical on every machine.

Needs the extra: pip install 'flyball[demo]'. Must not know servers.
"""

from flyball.bench.models.extras import missing_demo
from flyball.bench.models.fraud import FRAUD_FIELDS, fraud_rows, make_fraud_gbdt
from flyball.bench.models.make import make_model, maker_rows
from flyball.bench.models.perceptron import make_fraud_mlp_12mb, make_int8_mlp, make_mlp
from flyball.bench.models.rows import make_row_cnn, make_table_100mb, retitle, table_rows
from flyball.bench.models.vision import make_vision_cnn_int8, pictures

__all__ = [
    "FRAUD_FIELDS",
    "fraud_rows",
    "make_fraud_gbdt",
    "make_fraud_mlp_12mb",
    "make_int8_mlp",
    "make_mlp",
    "make_model",
    "make_row_cnn",
    "make_table_100mb",
    "make_vision_cnn_int8",
    "maker_rows",
    "missing_demo",
    "pictures",
    "retitle",
    "table_rows",
]
