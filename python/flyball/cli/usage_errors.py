"""Turns click's errors into messages: what was typed, what is allowed, and what to type instead.

Must not know any verb: it reads options, arguments and examples from the command.
"""

from __future__ import annotations

import difflib
import re
import shlex
from typing import TYPE_CHECKING, Any

from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Words that mean the same option, here and in other programs; the first that a command has is suggested.
_SAME = (
    ("listen", "port", "p", "host", "h", "bind", "b", "address", "addr", "http-port", "grpc-port"),
    ("lanes", "workers", "w", "threads", "processes"),
    ("environment", "env", "to", "stage"),
    ("data", "rows", "in", "input", "i", "file", "f", "dataset", "csv"),
    ("out", "output", "o", "dest", "work", "to"),
    ("limit", "most", "max", "top", "head", "count", "lines", "rows"),
    ("by", "as", "user", "actor", "who", "author"),
    ("reason", "why", "message", "m", "comment", "note"),
    ("journal-folder", "journal", "log", "folder"),
    ("journal-kek", "kek"),
    ("journal-key", "key"),
    ("since", "from", "after", "start"),
    ("until", "to", "before", "end"),
    ("store", "to", "from"),
    ("expires", "until", "days", "expiry"),
    ("target", "labels", "label", "y", "truth"),
    ("url", "server", "host", "endpoint", "address"),
    ("rows-max", "rows"),
    ("batch-rows", "rows", "batch", "batch-size"),
    ("batch-rows-max", "rows-max", "max-batch-size", "batch-max"),
    ("callers", "file", "keys"),
    ("trust-policy", "file", "policy"),
    ("trust-root", "root"),
    ("state-folder", "state"),
    ("model-repository", "model-store", "model-dir", "models", "repository"),
    ("config", "c", "settings"),
    ("key", "k", "private-key"),
    ("may", "right", "rights", "role", "allow"),
    ("role", "roles"),
    ("serve", "keep"),
    ("deadline-ms", "timeout", "timeout-ms", "deadline"),
)
# How a command says what other programs have an option for.
_WRITTEN = {
    ("flyball serve", "name"): "name a model as  flyball serve NAME=MODEL.onnx",
    ("flyball serve", "model-name"): "name a model as  flyball serve NAME=MODEL.onnx",
    ("flyball serve", "model"): "flyball serve MODEL.onnx",
    ("flyball serve", "m"): "flyball serve MODEL.onnx",
    ("flyball serve", "model-path"): "flyball serve MODEL.onnx",
}
# Commands that people know from other programs.
_MEANT = {
    "run": "serve",
    "start": "serve",
    "validate": "check",
    "lint": "check",
    "train": "fit",
    "deploy": "promote",
    "publish": "register",
    "upload": "register",
    "infer": "predict",
    "logs": "decisions tail",
    "log": "decisions tail",
    "models": "registry list",
    "ls": "registry list",
    "list": "registry list",
    "benchmark": "bench",
    "build": "snapshot",
    "compile": "snapshot",
    "keygen": "key new",
    "version": "--version",
    "help": "--help",
}
_NAMED = re.compile(r"[Nn]o such command '(.*?)'")
_EXTRA = re.compile(r"[Gg]ot unexpected extra arguments?(?:\(s\))? \((.*)\)")
_EXAMPLE = re.compile(r"^\s*(flyball .+?)\s*$", re.MULTILINE)
_CLOSE = 0.7
_SHOWN_MAX = 100


def usage_error(error: Any, words: Sequence[str]) -> UsageError:
    """The error for people; `words` are the arguments as typed."""
    command = error.ctx.command_path if getattr(error, "ctx", None) else "flyball"
    named = _NAMED.search(str(error.message))
    if getattr(error, "option_name", None) and hasattr(error, "possibilities"):
        return _no_such_option(error, words, command)
    if named:
        return _no_such_command(error, named[1], command, words)
    if type(error).__name__ == "MissingParameter" and error.param is not None:
        return UsageError(f"missing {_described(error.param)}", next_step=_how(error.ctx, command))
    if getattr(error, "param", None) is not None:
        return UsageError(_bad_value(error), next_step=f"see the usage:  {command} --help")
    extra = _EXTRA.search(str(error.message))
    message = f"unexpected argument: {extra[1]}" if extra else _sentence(error.format_message())
    return UsageError(message, next_step=_how(error.ctx, command) if message else None)


def _no_such_option(error: Any, words: Sequence[str], command: str) -> UsageError:
    typed, known = error.option_name, _options(error.ctx)
    if typed in ("-v", "-V", "--verbose") and command == "flyball":
        return UsageError(f"no such option: {typed}", next_step="flyball --version   or   flyball --help")
    if written := _WRITTEN.get((command, typed.lstrip("-"))):
        return UsageError(f"no such option: {typed}", next_step=written)
    meant = _meant_option(typed, known)
    if meant is None:
        return UsageError(f"no such option: {typed}", next_step=f"see the usage:  {command} --help")
    if meant == "--listen" and (address := _address(typed, _value_of(typed, words))):
        return UsageError(f"no such option: {typed}; did you mean {meant}?", next_step=f"write  --listen {address}")
    step = f"try:  {_instead(words, typed, meant)}" if _value_of(typed, words) else f"see the usage:  {command} --help"
    return UsageError(f"no such option: {typed}; did you mean {meant}?", next_step=step)


def _meant_option(typed: str, known: Sequence[str]) -> str | None:
    """The option that was probably meant: one that begins like it, one with the same meaning, or the nearest."""
    word = typed.lstrip("-")
    begun = [one for one in known if one.startswith(typed)] if len(word) > 2 else []
    if len(begun) == 1:
        return begun[0]
    for same in _SAME:
        if word in same and f"--{same[0]}" in known:
            return f"--{same[0]}"
    close = difflib.get_close_matches(typed, known, n=1, cutoff=_CLOSE)
    return close[0] if close else begun[0] if begun else None


def _value_of(option: str, words: Sequence[str]) -> str:
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else next(iter(words[index + 1 : index + 2]), "")
    return ""


def _address(option: str, value: str) -> str | None:
    """The address for --listen of a port or a host."""
    if value.isdecimal():
        return f"127.0.0.1:{value}"
    if re.fullmatch(r"[A-Za-z0-9.-]+", value) and not value.startswith("-") and "port" not in option:
        return f"{value}:8080"
    return None


def _instead(words: Sequence[str], typed: str, meant: str) -> str:
    """The command as typed, with another word for one of its words; only that word, if the command is long."""
    line = ["flyball"]
    for word in words:
        name, equals, value = word.partition("=")
        line.append(meant + (equals + shlex.quote(value) if equals else "") if name == typed else shlex.quote(word))
        typed = "" if name == typed else typed
    whole = " ".join(line)
    return whole if len(whole) <= _SHOWN_MAX and whole.isprintable() else f"flyball {meant} …"


def _no_such_command(error: Any, typed: str, command: str, words: Sequence[str]) -> UsageError:
    group = error.ctx.command
    found = f"no such command '{typed}'"
    if command == "flyball" and typed in _MEANT:
        return UsageError(found, next_step=f"try:  {_instead(words, typed, _MEANT[typed])}")
    inside = [f"{name} {typed}" for name, one in group.commands.items() if typed in getattr(one, "commands", {})]
    if inside:
        return UsageError(found, next_step="try:  " + "   or   ".join(f"{command} {one}" for one in inside[:2]))
    close = difflib.get_close_matches(typed, list(group.commands), n=1, cutoff=_CLOSE)
    if close:
        return UsageError(f"{found}; did you mean '{close[0]}'?", next_step=f"try:  {_instead(words, typed, close[0])}")
    commands = "" if command == "flyball" else f"; commands are {', '.join(group.commands)}"
    return UsageError(f"{found}{commands}", next_step=_how(error.ctx, command))


def _described(param: Any) -> str:
    """`option --data ROWS: rows to learn from`."""
    name = max(param.opts, key=len) if param.param_type_name == "option" else ""
    shown = " ".join(part for part in (name, _metavar(param)) if part)
    text = (param.help or "").split(". ")[0].rstrip(".")
    return f"{param.param_type_name} {shown}: {text[:1].lower() + text[1:] if text[1:2].islower() else text}"


def _metavar(param: Any) -> str:
    """What stands for the value in a help page, else what it is."""
    if param.metavar:
        return str(param.metavar)
    if param.param_type_name == "argument":
        return str(param.name).upper()
    kind = str(param.type_descriptor.annotation)
    return next((shown for part, shown in (("Path", "FILE"), ("int", "N"), ("float", "NUMBER")) if part in kind), "TEXT")


def _bad_value(error: Any) -> str:
    """What is wrong with a value, by pydantic's error if there is one, else by the message."""
    param = error.param
    name = max(param.opts, key=len) if param.param_type_name == "option" else _metavar(param)
    cause = error.__cause__
    items = cause.errors(include_url=False) if hasattr(cause, "errors") else []
    if not items:
        return f"{name}: {_sentence(error.message)}"
    item = items[0]
    return f"{name}: {item['input']!r} is not {_wanted(item, param)}"


def _wanted(item: dict[str, Any], param: Any) -> str:
    kind, limits = item["type"], item.get("ctx") or {}
    if kind.startswith(("int", "float", "greater", "less")):
        whole = "int" in str(param.type_descriptor.annotation)
        number = "a whole number" if whole else "a number"
        return number + _range(getattr(param, "min", None), getattr(param, "max", None))
    if "expected" in limits:
        return f"one of {str(limits['expected']).replace(' or ', ', ').replace(chr(39), '')}"
    return _sentence(str(item["msg"])).removeprefix("input should be ").rpartition(" is not ")[2].replace("'", "")


def _range(low: float | None, high: float | None) -> str:
    if low is not None:
        return f" from {low:g} to {high:g}" if high is not None else f" of {low:g} or more"
    return "" if high is None else f" of at most {high:g}"


def _options(ctx: Any) -> list[str]:
    return [name for param in _parameters(ctx) if param.param_type_name == "option" for name in param.opts] + ["--help"]


def _parameters(ctx: Any) -> Iterator[Any]:
    yield from ctx.command.params if ctx is not None else ()


def _how(ctx: Any, command: str) -> str:
    """The command's own example, else its help page."""
    example = _EXAMPLE.search((ctx.command.help or "") if ctx is not None else "")
    if example and example[1].split("   ")[0] != command:
        return f"for example:  {example[1]}"
    return f"see the usage:  {command} --help"


def _sentence(text: str) -> str:
    """Click's sentence as part of a message: no capital, no full stop, no newlines."""
    text = " ".join(text.split()).rstrip(".")
    return text[:1].lower() + text[1:]
