"""The extension, typed: the only room that imports `_native`; the documents that cross lie beside each module.

Must not know the command line, nor what documents mean.
"""
