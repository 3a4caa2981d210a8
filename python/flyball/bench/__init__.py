"""Measuring: models and payloads to measure with, peers to measure against, and the runs themselves.

This package may import `onnxruntime`, for expected answers and the bare loop; `flyball serve` never does.
"""
