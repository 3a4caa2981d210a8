"""Compares the answers of two models: rows, error figures, an accuracy gate, and a certificate.

Works on arrays of answers and named columns. Must not know converters, servers or the registry.
"""
