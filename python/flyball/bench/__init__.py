"""Benchmarks: models and payloads, peer servers, measurement runs, records and reports.

This package may import `onnxruntime`, for expected answers and the bare loop; `flyball serve` never does.
"""
