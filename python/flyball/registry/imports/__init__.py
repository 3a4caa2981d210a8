"""Imports models from MLflow and Triton repositories as versions, with their origin."""
