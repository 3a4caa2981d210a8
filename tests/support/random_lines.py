"""Composes random command lines from the real verbs and options, some misspelt, with fitting and unfitting values.

Values name nothing outside the folder in which the lines run: no absolute path that can be made, no other host.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from flyball.cli import app

FITTING = {
    "model": "fraud.onnx credit.onnx models/fraud.onnx f=fraud.onnx plain.onnx cut.onnx notes.onnx nowhere.onnx models",
    "decision": "plain.yaml rule.yaml cut.yaml unfitted.yaml overlap.yaml name.yaml nowhere.yaml plain card-fraud",
    "data": "rows.csv payments.csv wrong.csv row.json cut.json rows.parquet notes.txt nowhere.jsonl",
    "out": "made.csv made.parquet made.jsonl made made.zip made.onnx made.xlsx nowhere/made.csv j",
    "name": "fraud credit fraud@1 fraud@2 fraud@champion frod Fraud/1 @ fraud@ plain",
    "key": "ada.pem grace.pem barbara.pem control.pem ada.pub nowhere.pem row.json",
    "folder": "journal registry models j nowhere .flyball/registry made",
    "url": "http://127.0.0.1:1 grpc://127.0.0.1:1 unix:/nowhere.sock localhost:1 127.0.0.1 http:// ftp://127.0.0.1",
    "address": "127.0.0.1:0 8080 tls://127.0.0.1:0 unix:s.sock 0.0.0.0:0 nowhere [::1 127.0.0.1:99999",
    "time": "2h 90d 2027-01-31 tomorrow 2026-11-15T07:30 1e9 -1d 99999999999d",
    "number": "0 1 5 -1 1.5 NaN inf 1e309 999999999999999999999 two 0x10",
    "id": "0192f6c1-0000-7000-8000-000000000000 0192 1a1d 1234567890 nonsense 0",
    "word": "dev prod production signer ada decide:plain fly:plain P-256 json amount=3 a=b true env:NOTHING file:key",
}
_KINDS = {
    "model": ("model", "models", "a", "b"),
    "decision": ("decision", "spec", "candidate", "scenario", "contract"),
    "data": ("data", "file", "rows", "config", "callers", "snapshot", "checkpoint", "trace", "card", "labels"),
    "out": ("out", "html", "plot", "target"),
    "name": ("name", "ref", "alias", "version"),
    "key": ("key", "root", "trust_root", "publisher_key", "root_key", "journal_key", "public_key"),
    "folder": ("journal", "journal_folder", "registry", "folder", "state_folder", "home", "models", "store", "source"),
    "url": ("url", "node", "to", "server"),
    "address": ("listen", "admin_listen"),
    "time": ("since", "until", "expires", "keep", "compact_every", "older", "when", "at"),
    "id": ("decision_id", "id", "subject"),
}
GARBAGE = (
    "", " ", "-", "é", "日本", "\x1b[31m", "a\nb", "\udcff", "x" * 300, "null", "{}", "[1", "%s", "{0}", "a b", "'", "*",
    "=", "=x", "/proc/none/x", "..", "%00", "NaN", "-0", "1,2", ":", "@", "select 1", "--", "[bold]",
)  # fmt: skip
STDIN = (
    "",
    "[[1, 2, 3, 4]]",
    "{}",
    '{"card_id": "c-1", "amount": 12.5, "currency": "EUR", "country": "DE"}',
    "[",
    "y\n",
    "\x00",
)


@dataclass(frozen=True)
class Verb:
    """A command's words, its option names, and its arguments' names."""

    words: tuple[str, ...]
    flags: tuple[tuple[str, str, bool], ...]
    """Each option's flag, name, and whether it takes no value."""
    arguments: tuple[str, ...]


def verbs() -> list[Verb]:
    """Every verb of the application, groups that run by themselves among them."""
    return list(_verbs(typer.main.get_command(app.application()), ()))


def _verbs(command: Any, words: tuple[str, ...]) -> Iterator[Verb]:
    flags = tuple(
        (max(param.opts, key=len), str(param.name), bool(param.is_flag))
        for param in command.params
        if param.param_type_name == "option"
    )
    arguments = tuple(str(param.name) for param in command.params if param.param_type_name == "argument")
    inner = getattr(command, "commands", {})
    if not inner or words:
        yield Verb(words, flags, arguments)
    for name, one in inner.items():
        yield from _verbs(one, (*words, name))


class Lines:
    """Random lines of one seed."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._verbs = verbs()
        self._all_flags = [flag for verb in self._verbs for flag in verb.flags]

    def line(self) -> tuple[list[str], str]:
        """The arguments of a command, and its standard input."""
        dice = self._dice
        verb = dice.choice(self._verbs)
        words = [self._misspelt(word) if dice.random() < 0.03 else word for word in verb.words]
        if dice.random() < 0.02:
            words.pop()
        more = [self._value(name) for name in verb.arguments if dice.random() < 0.85]
        more += [self._value("") for _ in range(dice.choice((*[0] * 14, 1, 2)))]
        for _ in range(dice.choice((0, 1, 1, 2, 2, 3, 5))):
            more += self._option(verb)
        if dice.random() < 0.1:
            more.insert(
                dice.randrange(len(more) + 1), dice.choice(("--json", "--help", "-h", "-V", "--version", "-x", "--"))
            )
        return [*words, *more], dice.choice(STDIN)

    def _option(self, verb: Verb) -> list[str]:
        dice = self._dice
        chosen: Sequence[tuple[str, str, bool]] = verb.flags if verb.flags and dice.random() < 0.9 else self._all_flags
        flag, name, alone = dice.choice(chosen)
        flag = self._misspelt(flag) if dice.random() < 0.05 else flag
        if alone:
            return [flag]
        match dice.randrange(12):
            case 0:
                return [flag]
            case 1:
                return [f"{flag}={self._value(name)}"]
        return [flag, self._value(name)]

    def _value(self, name: str) -> str:
        dice = self._dice
        roll = dice.random()
        if roll < 0.1:
            return dice.choice(GARBAGE)
        kinds = [kind for kind, names in _KINDS.items() if name in names]
        kind = dice.choice(kinds or ["number", "word"]) if roll < 0.85 else dice.choice(list(FITTING))
        return dice.choice(FITTING[kind].split())

    def _misspelt(self, word: str) -> str:
        at = self._dice.randrange(len(word))
        return word[:at] + self._dice.choice(("", word[at] * 2, self._dice.choice(string.ascii_lowercase))) + word[at + 1 :]
