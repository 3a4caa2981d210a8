"""`flyball key`: creates and shows signing keys. A private key never leaves its file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import printed_as_json
from flyball.errors import UsageError

key = typer.Typer(
    name="key",
    no_args_is_help=True,
    help="Create keys that sign packages, releases and the trust policy.\n\n    flyball key new ada.pem",
)


@key.command()
def new(
    file: Annotated[Path, argument("The private key's file; the public key is written beside it.", metavar="FILE")],
    curve: Annotated[str, option("P-256, P-384 or P-521.")] = "P-256",
    json: AsJson = False,
) -> None:
    """Create a key pair: FILE, readable by its owner only, and the public key in a .pub file.

    flyball key new ada.pem
    """
    from flyball.signing import keys

    public = file.with_name(file.name.removesuffix(".pem").removesuffix(".key") + ".pub")
    for path in (file, public):
        if path.exists():
            raise UsageError(f"{path} already exists", next_step="give another file: an overwritten key cannot be restored")
    made = keys.generate(curve)
    _write_new(file, keys.private_pem(made), 0o600)
    _write_new(public, keys.public_pem(made.public_key()), 0o644)
    shown = {"private": str(file), "public": str(public), **_described(made.public_key())}
    if printed_as_json(shown, json):
        return
    typer.echo(f"{file}   {shown['curve']}, private key, readable by its owner only\n{public}   {shown['hint']}")
    typer.echo(f"Next:  flyball trust add {public} --name NAME --role signer")
    typer.echo(f"       flyball trust init --root-key {file}     for a root key")


@key.command()
def show(
    file: Annotated[Path, argument("A private or public key, in PEM.", metavar="FILE")],
    pem: Annotated[bool, option("Print the public key as PEM.", "--pem")] = False,
    json: AsJson = False,
) -> None:
    """Show a key's curve and its hint, which identifies it in signatures.

    flyball key show ada.pub
    """
    from flyball.signing import keys

    private = keys.is_private(file)
    found = [keys.load_private(file).public_key()] if private else keys.load_publics(file)
    if printed_as_json([{**_described(one), "pem": keys.public_pem(one)} for one in found], json):
        return
    for one in found:
        shown = _described(one)
        typer.echo(keys.public_pem(one).rstrip("\n") if pem else f"{shown['curve']}   {shown['hint']}")


def _described(public: Any) -> dict[str, str]:
    from flyball.signing import keys

    return {"curve": keys.curve_of(public), "hint": keys.hint(public)}


def _write_new(path: Path, text: str, mode: int) -> None:
    """Create the file with its mode; never overwrites."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
