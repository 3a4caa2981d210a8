"""Offline scoring: files of rows through the same server and API."""
