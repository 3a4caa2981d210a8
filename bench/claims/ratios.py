"""Bars of ratios that more than one suite measures: one ratio has one bar. Must not know how they are measured."""

from __future__ import annotations

GBDT_OVER_FASTAPI_MIN = 18.0
"""GBDT of 300 trees, JSON, 16 connections, closed loop, one core: requests a second over FastAPI's best."""
P50_BESIDE_MAX = 1.2
"""A GBDT's p50 beside trouble (bad clients, hostile models, a saturated neighbour), over its p50 alone."""
LANES_APART_MAX = 0.25
"""CPU times of the lanes that share one gRPC connection, apart."""
