"""A registry's home: its file is read with every fault told, and nothing secret stands in it."""

import pytest

from flyball.errors import RegistryRefusedError
from flyball.registry.home import DEFAULT_FOLDER, Home, RegistrySettings


def test_a_new_home_says_what_its_defaults_are(tmp_path):
    made = Home.create(tmp_path / "home")
    assert Home.open(tmp_path / "home") == made
    assert made.settings == RegistrySettings()
    assert made.database_url() == f"sqlite:///{tmp_path}/home/registry.db"
    assert (made.trust, made.trust_root) == (tmp_path / "home" / "trust.json", tmp_path / "home" / "root.pub")


def test_settings_come_back_as_they_were_given(tmp_path):
    chosen = RegistrySettings(
        database="env:REGISTRY_DATABASE",
        artifacts="s3://models/risk",
        artifacts_endpoint="http://127.0.0.1:9000",
        artifacts_region="eu-west-1",
        environments=["lab", "live"],
        trust="/etc/flyball/trust.json",
    )
    Home.create(tmp_path, chosen)
    home = Home.open(tmp_path)
    assert home.settings == chosen
    assert str(home.trust) == "/etc/flyball/trust.json"


def test_a_home_is_never_made_over_another(tmp_path):
    Home.create(tmp_path)
    with pytest.raises(RegistryRefusedError, match="is already a registry"):
        Home.create(tmp_path)


def test_a_folder_without_the_file_is_no_home_and_the_next_step_is_told(tmp_path):
    with pytest.raises(RegistryRefusedError, match="there is no registry in") as refused:
        Home.open(tmp_path)
    assert f"flyball registry init {tmp_path}" in str(refused.value)


def test_a_home_is_found_by_its_name_then_the_variable_then_here(tmp_path, monkeypatch):
    named, meant, here = tmp_path / "named", tmp_path / "meant", tmp_path / DEFAULT_FOLDER
    for folder in (named, meant, here):
        Home.create(folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLYBALL_REGISTRY", raising=False)
    assert Home.find().folder == DEFAULT_FOLDER
    monkeypatch.setenv("FLYBALL_REGISTRY", str(meant))
    assert Home.find().folder == meant
    assert Home.find(named).folder == named


def test_every_fault_is_told_at_once_with_its_line(tmp_path):
    lines = ["database: mysql://x", "artifacts: 7", "environments: [dev, dev]", "colour: red", "trust: a", "trust: b"]
    (tmp_path / "registry.yaml").write_text("\n".join(lines))
    with pytest.raises(RegistryRefusedError, match="has 5 faults") as refused:
        Home.open(tmp_path)
    places = {(fault.path, fault.at.rpartition(":")[2]) for fault in refused.value.faults}
    assert places == {("", "6"), ("database", "1"), ("artifacts", "2"), ("environments", "3"), ("colour", "4")}
    assert "no such key; keys are database, artifacts" in str(refused.value)


@pytest.mark.parametrize("content", [b"\xff", b"database: [", b"- a", b"a" * 70_000, b"a: &x 1\nb: *x"])
def test_a_file_that_is_no_document_is_refused(tmp_path, content):
    (tmp_path / "registry.yaml").write_bytes(content)
    with pytest.raises(RegistryRefusedError, match=r"registry\.yaml"):
        Home.open(tmp_path)


def test_a_databases_url_may_come_from_a_variable(tmp_path, monkeypatch):
    home = Home.create(tmp_path, RegistrySettings(database="env:REGISTRY_DATABASE"))
    monkeypatch.delenv("REGISTRY_DATABASE", raising=False)
    with pytest.raises(RegistryRefusedError, match="REGISTRY_DATABASE, which is not set") as refused:
        home.database_url()
    assert "export REGISTRY_DATABASE=" in str(refused.value)
    monkeypatch.setenv("REGISTRY_DATABASE", "postgresql://ana@db/registry")
    assert home.database_url() == "postgresql://ana@db/registry"
    monkeypatch.setenv("REGISTRY_DATABASE", "env:REGISTRY_DATABASE")
    with pytest.raises(RegistryRefusedError):
        home.database_url()


def test_an_absolute_database_stays_where_it_is(tmp_path):
    home = Home.create(tmp_path, RegistrySettings(database="sqlite:////var/lib/flyball/registry.db"))
    assert home.database_url() == "sqlite:////var/lib/flyball/registry.db"
