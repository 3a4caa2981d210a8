"""Do two models answer alike? Rows to ask both, figures of how far they differ, a gate, and a certificate of the result.

Works on arrays of answers and on columns by name; must not know converters, servers or the registry.
"""
