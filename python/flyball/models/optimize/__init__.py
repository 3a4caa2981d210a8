"""Turns an ONNX model into a faster one that is proven equal, in eleven resumable steps.

Every answer and time comes from the serving engine. Graphs are rewritten and quantised in separate processes, because ONNX
Runtime's Python package maps a second copy of its library. Must not know the registry.
"""
