"""Packages of versions: made, scanned, checked, and read as deployments."""
