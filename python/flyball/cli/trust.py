"""`flyball trust`: edits the trust policy of servers and the registry. The root key signs every edit.

The file is replaced atomically, so that a server which watches it never reads half of it.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from flyball.cli.expiry import moment_from_now
from flyball.cli.option import AsJson, argument, one_of, option, with_options
from flyball.cli.output import console, counted, print_json
from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.registry.home import Home
    from flyball.signing.keys import PrivateKey
    from flyball.signing.policy import Role, Tier, TrustedKey, TrustPolicy

trust = typer.Typer(
    name="trust",
    no_args_is_help=True,
    help=(
        "Manage which keys may sign, approve and publish, and revoke keys and packages.\n\n"
        "    flyball trust init\n\n"
        "    flyball trust add grace.pub --name grace --role approver"
    ),
)

_File = Annotated[
    Path | None,
    option(
        "The trust policy; by default the registry's, or trust.json without a registry.", "--trust-policy", metavar="FILE"
    ),
]
_Registry = Annotated[
    str | None,
    option(
        "The registry whose policy to edit; by default .flyball/registry if it exists.",
        "--registry",
        metavar="HOME|URL",
        envvar="FLYBALL_REGISTRY",
    ),
]
_RootKey = Annotated[
    list[Path] | None,
    option("A private root key, root.pem by default; if repeated, all of them sign.", "--root-key", metavar="FILE"),
]

_Expires = Annotated[str | None, option("Expiry: 90d, or a time. Never by default.", "--expires", metavar="TIME")]
_EDIT: dict[str, Any] = {"file": _File, "registry": _Registry, "root_key": _RootKey, "json": AsJson}
"""The options of every edit of the policy."""
_ROLES = ("signer", "approver", "publisher")
_DEFAULT = Path("trust.json")
_DEFAULT_ROOT = Path("root.pub")
_ROOT = Path("root.pem")


@trust.command()
def init(
    file: _File = None,
    registry: _Registry = None,
    root_key: _RootKey = None,
    expires: _Expires = None,
    json: AsJson = False,
) -> None:
    """Create the first trust policy; it trusts no keys yet.

    flyball trust init --root-key root.pem --expires 365d
    """
    from flyball.signing.policy import TrustPolicy

    policy = _policy_file(file, registry)
    if policy.exists():
        raise UsageError(f"{policy} already exists", next_step=f"flyball trust show --trust-policy {policy}")
    now = int(time.time())
    _save(TrustPolicy.first(now, _ends(expires)), policy, _roots(root_key), json)
    if not json:
        typer.echo(f"Next:  flyball trust add PUBLIC-KEY --name NAME --role signer --trust-policy {policy}")


@trust.command()
@with_options(_EDIT)
def add(
    public_key: Annotated[Path, argument("The public key in PEM, as written by flyball key new.", metavar="PUBLIC-KEY")],
    name: Annotated[str, option("The key's owner; all keys of one person have the same name.")],
    role: Annotated[
        list[str], option("signer, approver or publisher; may be repeated.", metavar="ROLE", callback=one_of(*_ROLES))
    ],
    since: Annotated[str | None, option("Valid from; by default now.", "--valid-from", metavar="TIME")] = None,
    expires: _Expires = None,
    **edit: Any,
) -> None:
    """Trust a key, or replace its roles and validity.

    flyball trust add ada.pub --name ada --role signer --expires 365d
    """
    from flyball.signing.keys import load_publics

    found = load_publics(public_key)
    if len(found) != 1:
        raise UsageError(f"{public_key} has {len(found)} keys", next_step="give a file with one key")
    now = int(time.time())
    roles = cast("list[Role]", role)
    begins = now if since is None else moment_from_now(since, "--valid-from")
    _edit(edit, lambda old: old.with_key(found[0], name, roles, since=begins, until=_ends(expires), now=now))
    if not edit["json"]:
        typer.echo(f"Next:  {_next_command(roles)}")


@trust.command()
@with_options(_EDIT)
def revoke(
    what: Annotated[
        str,
        argument("A key's name or hint, a version such as fraud@7, or a package's sha256:… root.", metavar="KEY|PACKAGE"),
    ],
    reason: Annotated[str, option("The reason, shown to those who are refused.", metavar="TEXT")],
    **edit: Any,
) -> None:
    """Revoke a key or a package: servers load nothing that depends on it.

    flyball trust revoke ada.pub --reason 'the laptop was stolen'
    """
    registry = edit["registry"]
    policy = _edit(edit, lambda old: old.revoking(_revoked(old, what, registry), reason, int(time.time())))
    if not edit["json"]:
        typer.echo(f"Servers that read this policy {_consequence(policy)}.")
        typer.echo(f"Next:  {_status_command(registry)}")


@trust.command()
@with_options(_EDIT)
def minimum(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    version: Annotated[int, argument("The oldest version that may be served.", metavar="VERSION")],
    **edit: Any,
) -> None:
    """Set the minimum version of a name: servers refuse older ones.

    flyball trust minimum fraud 3
    """
    _edit(edit, lambda old: old.with_minimum(name, version, int(time.time())))


@trust.command()
@with_options(_EDIT)
def approvals(
    tier: Annotated[str, argument("low, standard or high.", metavar="TIER", callback=one_of("low", "standard", "high"))],
    people: Annotated[int, argument("Number of approvals by people other than the author.", metavar="N")],
    **edit: Any,
) -> None:
    """Set how many approvals a release of a tier needs.

    flyball trust approvals high 2
    """
    _edit(edit, lambda old: old.with_approvals(cast("Tier", tier), people, int(time.time())))


@trust.command()
@with_options(_EDIT)
def renew(
    expires: _Expires = None,
    **edit: Any,
) -> None:
    """Sign the policy again, with a new expiry; with a second --root-key, that one signs, too.

    flyball trust renew --expires 365d
    """
    now = int(time.time())
    _edit(edit, lambda old: old.renewed(now, _ends(expires)))


@trust.command()
def show(
    file: _File = None,
    registry: _Registry = None,
    trust_root: Annotated[
        Path | None, option("PEM file of public root keys; by default the registry's, else root.pub.", metavar="FILE")
    ] = None,
    json: AsJson = False,
) -> None:
    """Verify a trust policy against its root keys, and show it.

    flyball trust show
    """
    from flyball.signing.keys import load_publics
    from flyball.signing.trust import open_policy

    home = _home(registry) if file is None else None
    roots = trust_root or (home.trust_root if home is not None else _DEFAULT_ROOT)
    if not roots.exists():
        raise UsageError(f"no root keys {roots}", next_step="name the public root keys:  --trust-root FILE")
    policy = open_policy(_read(_policy_file(file, registry)), load_publics(roots))
    if json:
        print_json(policy.document())
    else:
        _print(policy)


def _edit(options: dict[str, Any], change: Callable[[TrustPolicy], TrustPolicy]) -> TrustPolicy:
    """Read, change, sign and write the policy that the `_EDIT` options name."""
    from flyball.signing.trust import open_policy

    file, roots = _policy_file(options["file"], options["registry"]), _roots(options["root_key"])
    changed = change(open_policy(_read(file), [root.public_key() for root in roots]))
    _save(changed, file, roots, options["json"])
    return changed


def _read(file: Path) -> bytes:
    if not file.is_file():
        raise UsageError(f"no trust policy {file}", next_step=f"flyball trust init --trust-policy {file}")
    return file.read_bytes()


def _next_command(roles: list[Role]) -> str:
    """The next command for the owner of a key with these roles."""
    if "signer" in roles:
        return "flyball sign NAME@VERSION --key FILE"
    if "approver" in roles:
        return "flyball approve NAME@VERSION --key FILE"
    return "flyball serve --registry HOME --publisher-key FILE"


def _consequence(policy: TrustPolicy) -> str:
    """What servers do after the policy's last revocation."""
    last = policy.revoked[-1]
    if last.package is not None:
        return "stop serving this package within a second"
    if any(known.hint == last.key and known.roles == ["publisher"] for known in policy.keys):
        return "load no more snapshots signed by this key; deployments that already serve stay"
    return "stop serving, within a second, everything this key signed or approved"


def _status_command(registry: str | None) -> str:
    """The command that shows what servers serve, or the policy without a registry."""
    if registry is not None:
        return f"flyball status --registry {shlex.quote(registry)}"
    return "flyball status" if _home(None) is not None else "flyball trust show"


def _roots(given: list[Path] | None) -> list[PrivateKey]:
    from flyball.signing.keys import load_private

    files = given or [_ROOT]
    missing = [file for file in files if not file.exists()]
    if missing:
        raise UsageError(f"no root key {missing[0]}", next_step=f"flyball key new {missing[0]}, or give --root-key FILE")
    return [load_private(file) for file in files]


def _save(policy: TrustPolicy, file: Path, roots: list[PrivateKey], json: bool) -> None:
    from flyball.signing.trust import sign_policy

    with tempfile.NamedTemporaryFile("wb", dir=file.parent, prefix=f".{file.name}.", delete=False) as written:
        try:
            written.write(sign_policy(policy, roots))
            written.flush()
            os.fchmod(written.fileno(), 0o644)  # no secret, and servers of other users read it
            os.fsync(written.fileno())
            Path(written.name).replace(file)
        except BaseException:
            Path(written.name).unlink(missing_ok=True)
            raise
    if json:
        print_json(policy.document())
    else:
        typer.echo(f"{file}   serial {policy.serial}, {counted(len(policy.keys), 'key')}, {len(policy.revoked)} revoked")


def _policy_file(given: Path | None, registry: str | None) -> Path:
    """The given policy file, else the registry's, else trust.json."""
    home = None if given is not None else _home(registry)
    return given or (home.trust if home is not None else _DEFAULT)


def _home(registry: str | None) -> Home | None:
    """The registry's home: the given one, else `.flyball/registry` if it exists; None for a remote registry."""
    from flyball.cli.registry.options import behind_http
    from flyball.registry.home import DEFAULT_FOLDER, FILE, Home

    if registry is not None:
        return None if behind_http(registry) else Home.open(Path(registry))
    return Home.open(DEFAULT_FOLDER) if (DEFAULT_FOLDER / FILE).is_file() else None


def _revoked(policy: TrustPolicy, what: str, registry: str | None) -> str:
    """Resolve what to revoke: a person's name to their key, a version to its package."""
    named = [known.hint for known in policy.keys if known.name.lower() == what.lower()]
    if len(named) > 1:
        raise UsageError(f"{what} has {len(named)} keys", next_step=f"give one of their hints: {', '.join(named)}")
    if named or "@" not in what:
        return named[0] if named else what
    from flyball.cli.registry.options import WHERE, opened, ref_of

    with opened(registry or WHERE) as found:
        return found.show(ref_of(what, None)).root


def _ends(expires: str | None) -> int | None:
    return None if expires is None else moment_from_now(expires, "--expires")


def _print(policy: TrustPolicy) -> None:
    from rich.markup import escape
    from rich.table import Table

    out = console()
    expiry = f"expires {policy.expires}" if policy.expires else "never expires"
    out.print(f"serial {policy.serial}, issued {policy.issued}, {expiry}")
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
    needed = policy.approvals
    out.print(f"approvals: low {needed.low}, standard {needed.standard}, high {needed.high}")


def _row(known: TrustedKey) -> tuple[Any, ...]:
    return known.hint[:12], known.name, ", ".join(known.roles), known.since, known.until or ""
