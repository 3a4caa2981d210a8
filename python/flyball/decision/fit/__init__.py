"""Fitted parameters of transforms: learnt from rows, or converted from a fitted scikit-learn pipeline.

Works on plain values; must not know how a decision is written or served.
"""
