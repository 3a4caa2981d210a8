"""What became of a model repository: for each model whether it can be served, and what its configuration's fields became.

Plain values that a terminal, a log and a machine can show. Must not know how they came about.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Note:
    """One field of a configuration: what it became here or, where `mapped` is false, that it has no counterpart."""

    field: str
    mapped: bool
    text: str

    def document(self) -> dict[str, object]:
        """The form for machines."""
        return {"field": self.field, "mapped": self.mapped, "text": self.text}


class Notes(list[Note]):
    """Collects the notes of one model."""

    def mapped(self, path: str, text: str) -> None:
        """The field says the same here, under another name."""
        self.append(Note(path, True, text))

    def said(self, path: str, text: str) -> None:
        """The field means nothing here, or something else."""
        self.append(Note(path, False, text))


@dataclass(frozen=True, slots=True)
class ModelReport:
    """One model of the repository. A `refusal` is why it cannot be served at all."""

    name: str
    versions: tuple[str, ...] = ()
    refusal: str | None = None
    notes: tuple[Note, ...] = ()

    @property
    def warnings(self) -> list[Note]:
        """What does not map."""
        return [note for note in self.notes if not note.mapped]

    def document(self) -> dict[str, object]:
        """The form for machines."""
        return {
            "name": self.name,
            "served": self.refusal is None,
            "versions": list(self.versions),
            "refusal": self.refusal,
            "notes": [note.document() for note in self.notes],
        }


@dataclass(frozen=True, slots=True)
class RepositoryReport:
    """Every model of a repository, by name."""

    repository: str
    models: tuple[ModelReport, ...] = field(default=())

    @property
    def served(self) -> list[ModelReport]:
        """The models that a server is given."""
        return [model for model in self.models if model.refusal is None]

    @property
    def refused(self) -> list[ModelReport]:
        """The models that no server of ours can serve."""
        return [model for model in self.models if model.refusal is not None]

    def document(self) -> dict[str, object]:
        """The form for machines."""
        return {"repository": self.repository, "models": [model.document() for model in self.models]}
