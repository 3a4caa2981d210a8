"""Typed access to the extension: the only package that imports `_native`.

The `…_documents` modules have the types of its documents. Must not know the command line, nor what documents mean.
"""
