"""The migrations make the tables that the code uses, on both databases, and a registry of another time is told."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from flyball.errors import MissingExtraError, RegistryRefusedError, RegistryUnavailableError
from flyball.registry.events.fold import KEYS
from flyball.registry.tables import nodes, projections, schema
from flyball.registry.tables.database import Database
from tests.support import registry_events


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    sqlite = request.param == "sqlite"
    return registry_events.sqlite_url(tmp_path) if sqlite else request.getfixturevalue("postgres").new_database()


def test_the_migrations_make_the_tables_that_the_code_uses(url):
    database = Database.open(url)
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
    database.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_new_registry_may_be_opened_by_many_at_once(kind, tmp_path, request):
    for turn in range(5):
        (tmp_path / str(turn)).mkdir()
        sqlite = kind == "sqlite"
        url = (
            registry_events.sqlite_url(tmp_path / str(turn))
            if sqlite
            else request.getfixturevalue("postgres").new_database()
        )
        with ThreadPoolExecutor(6) as pool:
            for opened in pool.map(Database.open, [url] * 6):
                opened.close()


def test_the_newest_migration_is_the_one_that_the_code_names():
    scripts = ScriptDirectory("python/flyball/registry/tables/migrations")
    assert scripts.get_heads() == [schema.REVISION]


TUPLES = [
    (projections.Approval, schema.approvals),
    (projections.Placement, schema.placements),
    (projections.Confirmation, schema.confirmations),
    (nodes.NodeReport, schema.nodes),
]


def test_rows_are_read_in_the_order_of_their_columns():
    assert [field.name for field in fields(projections.Version)] == [column.name for column in schema.versions.columns]


@pytest.mark.parametrize(("kind", "table"), TUPLES)
def test_tuples_are_read_in_the_order_of_their_columns(kind, table):
    assert list(kind._fields) == [column.name for column in table.columns]


def test_rows_are_known_by_the_primary_keys_of_their_tables():
    assert {table.name: tuple(table.primary_key.columns.keys()) for table in schema.PROJECTIONS} == KEYS


def test_a_registry_of_a_newer_flyball_is_refused(url):
    database = Database.open(url)
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    with pytest.raises(RegistryRefusedError, match="newer flyball: its tables are 9999"):
        Database.open(url)


@pytest.mark.parametrize("url", ["mysql://localhost/x", "registry.db", "postgresql+asyncpg://localhost/x", ""])
def test_other_databases_are_refused_with_what_is_taken(url):
    with pytest.raises(RegistryRefusedError, match="cannot be") as refused:
        Database.open(url)
    assert "sqlite:///registry.db or postgresql://" in str(refused.value)


def test_a_password_is_never_told(tmp_path):
    with pytest.raises(RegistryUnavailableError) as refused:
        Database.open(f"postgresql://ana:s3cret@/registry?host={tmp_path}")
    assert "s3cret" not in str(refused.value)
    assert "cannot be reached" in str(refused.value)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(RegistryUnavailableError, match="unable to open database file"):
        Database.open(f"sqlite:///{tmp_path}/nowhere/registry.db")


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    import importlib
    import sys

    monkeypatch.delitem(sys.modules, "flyball.registry.tables.database")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(MissingExtraError, match="needs sqlalchemy") as refused:
        importlib.import_module("flyball.registry.tables.database")
    assert "pip install 'flyball[registry]'" in str(refused.value)
