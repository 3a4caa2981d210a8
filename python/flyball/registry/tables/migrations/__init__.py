"""Alembic's scripts: how the tables of one version of flyball become those of the next."""
