"""From an ONNX model to a fast one that is proven equal: eleven steps, each of which can be taken up again where it ended.

Every answer and every time comes from the engine that serves. Graphs are rewritten and quantised in processes of their own,
for ONNX Runtime's Python package maps a second copy of its library. Must not know the registry.
"""
