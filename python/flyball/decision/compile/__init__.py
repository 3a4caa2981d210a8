"""Compiles a decision spec to the deployment document that servers run, and checks it."""
