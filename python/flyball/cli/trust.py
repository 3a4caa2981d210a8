"""`flyball trust`: the trust policy that servers and the registry judge by. Every edit is signed anew by the root key.

The file is replaced in one step, so that a server which watches it never reads half of one.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.registry.home import Home
    from flyball.signing.keys import PrivateKey
    from flyball.signing.policy import Role, Tier, TrustedKey, TrustPolicy

trust = typer.Typer(
    name="trust", help="Say which keys may sign, approve and publish, and what is revoked.", no_args_is_help=True
)

_File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="The trust policy: the registry's, or trust.json where there is none.",
        show_default=False,
    ),
]
_Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="HOME|URL",
        envvar="FLYBALL_REGISTRY",
        help="The registry whose policy it is: a folder, .flyball/registry where that is one.",
        show_default=False,
    ),
]
_RootKey = Annotated[
    list[Path] | None,
    typer.Option("--root-key", metavar="FILE", help="A private root key, root.pem by default; repeated, all of them sign."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_DEFAULT = Path("trust.json")
_DEFAULT_ROOT = Path("root.pub")
_ROOT = Path("root.pem")
_DAY_S = 86_400


@trust.command()
def init(
    file: _File = None,
    registry: _Registry = None,
    root_key: _RootKey = None,
    expires: Annotated[str | None, typer.Option(metavar="WHEN", help="When it ends: 90d, or a time.")] = None,
    json: _Json = False,
) -> None:
    """Make the first trust policy: it trusts nobody yet."""
    from flyball.signing.policy import TrustPolicy

    policy = _policy_file(file, registry)
    if policy.exists():
        raise UsageError(f"{policy} is there already", next_step=f"flyball trust show --file {policy}")
    now = int(time.time())
    _save(TrustPolicy.first(now, _when(expires, now)), policy, _roots(root_key), json)
    if not json:
        typer.echo(f"Next:  flyball trust add PUBLIC-KEY --name NAME --role signer --file {policy}")


@trust.command()
def add(
    public_key: Annotated[Path, typer.Argument(metavar="PUBLIC-KEY", help="The key in PEM, as flyball key new wrote it.")],
    name: Annotated[str, typer.Option(help="Whose key it is; all keys of one person have one name.")],
    role: Annotated[list[str], typer.Option(metavar="ROLE", help="signer, approver or publisher; may be repeated.")],
    since: Annotated[str | None, typer.Option("--from", metavar="WHEN", help="Valid from: now, unless given.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Valid until: 365d, or a time. Always, unless given.")
    ] = None,
    file: _File = None,
    registry: _Registry = None,
    root_key: _RootKey = None,
    json: _Json = False,
) -> None:
    """Trust a key, or say anew what it may do and until when."""
    from flyball.signing.keys import load_publics

    found = load_publics(public_key)
    if len(found) != 1:
        raise UsageError(f"{public_key} has {len(found)} keys", next_step="give a file with one")
    now = int(time.time())
    first, last = _when(since, now), _when(until, now)
    roles = cast("list[Role]", role)
    begins = now if first is None else first
    _edit(
        _policy_file(file, registry),
        root_key,
        json,
        lambda old: old.with_key(found[0], name, roles, since=begins, until=last, now=now),
    )
    if not json:
        typer.echo(f"Next:  {_next_of(roles)}")


@trust.command()
def revoke(
    what: Annotated[
        str,
        typer.Argument(
            metavar="KEY|PACKAGE", help="A key's name or hint, a version such as fraud@7, or a package's sha256:… root."
        ),
    ],
    why: Annotated[str, typer.Option(help="Why, for those who will be refused.")],
    file: _File = None,
    registry: _Registry = None,
    root_key: _RootKey = None,
    json: _Json = False,
) -> None:
    """Revoke a key or a package: nothing that rests on it is loaded again."""
    policy = _edit(
        _policy_file(file, registry),
        root_key,
        json,
        lambda old: old.revoking(_revoked(old, what, registry), why, int(time.time())),
    )
    if not json:
        typer.echo(f"Servers that read this policy {_follows(policy)}.")
        typer.echo(f"Next:  {_look(registry)}")


@trust.command()
def minimum(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    version: Annotated[int, typer.Argument(metavar="VERSION", help="The oldest version that may still be served.")],
    file: _File = None,
    registry: _Registry = None,
    root_key: _RootKey = None,
    json: _Json = False,
) -> None:
    """Refuse versions of a name that are older than this one."""
    _edit(_policy_file(file, registry), root_key, json, lambda old: old.with_minimum(name, version, int(time.time())))


@trust.command()
def approvals(
    tier: Annotated[str, typer.Argument(metavar="TIER", help="low, standard or high.")],
    people: Annotated[int, typer.Argument(metavar="N", help="How many people other than the author must approve.")],
    file: _File = None,
    registry: _Registry = None,
    root_key: _RootKey = None,
    json: _Json = False,
) -> None:
    """Say how many approvals a release of a tier needs."""
    _edit(
        _policy_file(file, registry),
        root_key,
        json,
        lambda old: old.with_approvals(cast("Tier", tier), people, int(time.time())),
    )


@trust.command()
def renew(
    expires: Annotated[
        str | None, typer.Option(metavar="WHEN", help="When it ends: 90d, or a time. Never, unless given.")
    ] = None,
    file: _File = None,
    registry: _Registry = None,
    root_key: _RootKey = None,
    json: _Json = False,
) -> None:
    """Sign the policy anew, with another end; with a second root key, let that one sign too."""
    now = int(time.time())
    _edit(_policy_file(file, registry), root_key, json, lambda old: old.renewed(now, _when(expires, now)))


@trust.command()
def show(
    file: _File = None,
    registry: _Registry = None,
    root: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The public root keys that it must be signed by: the registry's with its policy, else root.pub.",
            show_default=False,
        ),
    ] = None,
    json: _Json = False,
) -> None:
    """Show a trust policy that a root key signed."""
    from flyball.signing.keys import load_publics
    from flyball.signing.trust import open_policy

    home = _home(registry) if file is None else None
    roots = root or (home.trust_root if home is not None else _DEFAULT_ROOT)
    policy = open_policy(_read(_policy_file(file, registry)), load_publics(roots))
    if json:
        _print_json(policy)
    else:
        _print(policy)


def _edit(file: Path, root_key: list[Path] | None, json: bool, change: Callable[[TrustPolicy], TrustPolicy]) -> TrustPolicy:
    from flyball.signing.trust import open_policy

    roots = _roots(root_key)
    changed = change(open_policy(_read(file), [root.public_key() for root in roots]))
    _save(changed, file, roots, json)
    return changed


def _read(file: Path) -> bytes:
    if not file.is_file():
        raise UsageError(f"there is no trust policy {file}", next_step=f"flyball trust init --file {file}")
    return file.read_bytes()


def _next_of(roles: list[Role]) -> str:
    """What who has these roles does with the private key."""
    if "signer" in roles:
        return "flyball sign NAME@VERSION --key FILE"
    if "approver" in roles:
        return "flyball approve NAME@VERSION --key FILE"
    return "flyball serve --registry HOME --publisher-key FILE"


def _follows(policy: TrustPolicy) -> str:
    """What servers do after the last revocation of a policy."""
    last = policy.revoked[-1]
    if last.package is not None:
        return "stop serving this package within a second"
    if any(known.hint == last.key and known.roles == ["publisher"] for known in policy.keys):
        return "load no more snapshots that this key signed; what they serve stays"
    return "stop serving what this key signed or approved within a second"


def _look(registry: str | None) -> str:
    """The command that shows what servers serve, where a registry knows it."""
    if registry is not None:
        return f"flyball status --registry {shlex.quote(registry)}"
    return "flyball status" if _home(None) is not None else "flyball trust show"


def _roots(given: list[Path] | None) -> list[PrivateKey]:
    from flyball.signing.keys import load_private

    files = given or [_ROOT]
    missing = [file for file in files if not file.exists()]
    if missing:
        raise UsageError(f"there is no root key {missing[0]}", next_step=f"flyball key new {missing[0]}, or give --root-key")
    return [load_private(file) for file in files]


def _save(policy: TrustPolicy, file: Path, roots: list[PrivateKey], json: bool) -> None:
    from flyball.signing.trust import sign_policy

    with tempfile.NamedTemporaryFile("wb", dir=file.parent, prefix=f".{file.name}.", delete=False) as written:
        try:
            written.write(sign_policy(policy, roots))
            written.flush()
            os.fchmod(written.fileno(), 0o644)  # it holds no secret, and servers of other users read it
            os.fsync(written.fileno())
            Path(written.name).replace(file)
        except BaseException:
            Path(written.name).unlink(missing_ok=True)
            raise
    if json:
        _print_json(policy)
    else:
        from flyball.cli.output import counted

        typer.echo(f"{file}   serial {policy.serial}, {counted(len(policy.keys), 'key')}, {len(policy.revoked)} revoked")


def _policy_file(given: Path | None, registry: str | None) -> Path:
    """The policy that was named, or the registry's, or the one that lies here."""
    home = None if given is not None else _home(registry)
    return given or (home.trust if home is not None else _DEFAULT)


def _home(registry: str | None) -> Home | None:
    """The registry's home: one that was named, or `.flyball/registry` where there is one; none where it is elsewhere."""
    from flyball.cli.registry.options import behind_http
    from flyball.registry.home import DEFAULT_FOLDER, FILE, Home

    if registry is not None:
        return None if behind_http(registry) else Home.open(Path(registry))
    return Home.open(DEFAULT_FOLDER) if (DEFAULT_FOLDER / FILE).is_file() else None


def _revoked(policy: TrustPolicy, what: str, registry: str | None) -> str:
    """What is to be revoked: a name stands for its key, where it has one, and a version for its package."""
    named = [known.hint for known in policy.keys if known.name.lower() == what.lower()]
    if len(named) > 1:
        raise UsageError(f"{what} has {len(named)} keys", next_step=f"give one of their hints: {', '.join(named)}")
    if named or "@" not in what:
        return named[0] if named else what
    from flyball.cli.registry.options import WHERE, opened, ref_of

    with opened(registry or WHERE) as found:
        return found.show(ref_of(what, None)).root


def _when(text: str | None, now: int) -> int | None:
    """A time that a person wrote: days from now, a day, or a moment; all UTC."""
    from flyball.signing.strict import seconds

    if text is None:
        return None
    if days := re.fullmatch(r"([0-9]{1,5})d", text):
        return now + int(days[1]) * _DAY_S
    try:
        return seconds(text if "T" in text else f"{text}T00:00:00Z")
    except ValueError as error:
        step = "write 90d, 2027-01-31 or 2027-01-31T12:00:00Z"
        raise UsageError(f"{text!r} is not a time", next_step=step) from error


def _print_json(policy: TrustPolicy) -> None:
    from flyball.cli.output import print_json

    print_json(policy.document())


def _print(policy: TrustPolicy) -> None:
    from rich.markup import escape
    from rich.table import Table

    from flyball.cli.output import console

    out = console()
    out.print(
        f"serial {policy.serial}, issued {policy.issued}, {f'ends {policy.expires}' if policy.expires else 'without an end'}"
    )
    table = Table("key", "name", "roles", "from", "until", "", box=None)
    revoked = {one.key: one for one in policy.revoked if one.key}
    for known in policy.keys:
        why = revoked.get(known.hint)
        table.add_row(*_row(known), f"revoked: {escape(why.why)}" if why else "")
    out.print(table)
    for one in policy.revoked:
        out.print(f"revoked {one.key or one.package} on {one.at}: {escape(one.why)}")
    for name, version in sorted(policy.minimum.items()):
        out.print(f"{name}: version {version} or newer")
    asked = policy.approvals
    out.print(f"approvals: low {asked.low}, standard {asked.standard}, high {asked.high}")


def _row(known: TrustedKey) -> tuple[Any, ...]:
    return known.hint[:12], known.name, ", ".join(known.roles), known.since, known.until or ""
