"""Alembic's environment: runs the scripts in the transaction of `flyball.registry.tables.upgrade`."""

from alembic import context

from flyball.registry.tables.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
context.run_migrations()
