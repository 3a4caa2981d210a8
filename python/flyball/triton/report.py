"""The report on a model repository: each model's status, and the mapping of its configuration.

Plain values for a terminal, a log or JSON. Must not know how they came about.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """One field of a configuration: its counterpart, or, if `mapped` is false, why it has none."""

    field: str
    mapped: bool
    text: str


class Notes(list[Note]):
    """Collects the notes of one model."""

    def mapped(self, path: str, text: str) -> None:
        """The field has an equivalent."""
        self.append(Note(path, True, text))

    def unmapped(self, path: str, text: str) -> None:
        """The field has no equivalent, or a different meaning."""
        self.append(Note(path, False, text))


@dataclass(frozen=True, slots=True)
class ModelReport:
    """One model of the repository. `refusal` is why it cannot be served."""

    name: str
    versions: tuple[str, ...] = ()
    refusal: str | None = None
    notes: tuple[Note, ...] = ()

    @property
    def warnings(self) -> list[Note]:
        """Fields that do not map."""
        return [note for note in self.notes if not note.mapped]

    def document(self) -> dict[str, object]:
        """The JSON document."""
        return {
            "name": self.name,
            "served": self.refusal is None,
            "versions": list(self.versions),
            "refusal": self.refusal,
            "notes": [asdict(note) for note in self.notes],
        }


@dataclass(frozen=True, slots=True)
class RepositoryReport:
    """Every model of a repository, by name."""

    repository: str
    models: tuple[ModelReport, ...] = ()

    @property
    def served(self) -> list[ModelReport]:
        """The models to serve."""
        return [model for model in self.models if model.refusal is None]

    @property
    def refused(self) -> list[ModelReport]:
        """The models that cannot be served."""
        return [model for model in self.models if model.refusal is not None]

    def document(self) -> dict[str, object]:
        """The JSON document."""
        return {"repository": self.repository, "models": [model.document() for model in self.models]}
