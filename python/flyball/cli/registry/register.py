"""`flyball register`: registers a model, a decision or a folder as the next version of a name."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.model_files import models_read
from flyball.cli.option import AsJson, argument, option, with_options
from flyball.cli.output import printed_as_json
from flyball.cli.registry.card_options import (
    CARD_OPTIONS,
    LINEAGE_OPTIONS,
    MORE_CARD_OPTIONS,
    CardFile,
    card_of,
    contract_of,
    lineage_of,
    metrics_of,
)
from flyball.cli.registry.options import WHERE, By, Reason, Where, actor, opened
from flyball.cli.registry.text import next_step, say, short, size, waits_for
from flyball.cli.registry.wait import act_is_done

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.registry.acts.interface import Acting
    from flyball.registry.packages.deployment import PackageFolder
    from flyball.registry.views import VersionDetail

_Source = Annotated[Path | None, argument("An ONNX file, or a directory with all files.", metavar="[MODEL.onnx|DIR]")]
_Contract = Annotated[Path | None, option("Latency contract: p99_ms at rate_per_s; checked at promotion.", metavar="FILE")]


@with_options(CARD_OPTIONS | MORE_CARD_OPTIONS | LINEAGE_OPTIONS)
def register(
    name: Annotated[str, argument("The name that callers use.", metavar="NAME")],
    source: _Source = None,
    decision: Annotated[Path | None, option("A decision in YAML, with the files it references.", metavar="FILE")] = None,
    sample: Annotated[
        list[Path] | None, option("A JSON row to measure the latency contract with; may be repeated.", metavar="FILE")
    ] = None,
    profile: Annotated[Path | None, option("Expected distribution of inputs and scores, in JSON.", metavar="FILE")] = None,
    contract: _Contract = None,
    certificate: Annotated[Path | None, option("Equivalence certificate; checked at promotion.", metavar="FILE")] = None,
    card: CardFile = None,
    reason: Reason = "",
    by: By = None,
    registry: Where = WHERE,
    json: AsJson = False,
    **flags: Any,
) -> None:
    """Register a model or a decision as the next version of a name.

    It is scanned, copied with all files it references, and stored by digest. Servers load it only after it is signed,
    approved and promoted.

        flyball register fraud model.onnx --owner risk@example.com --metric auc=0.91

        flyball register card-fraud --decision card-fraud.yaml --tier high
    """
    from flyball.registry.packages.pack import Contents, pack

    acting = actor(by)
    whole = source is not None and source.is_dir()
    contents = Contents(
        name=name,
        author=acting.name,
        model=None if whole else source,
        folder=source if whole else None,
        decision=decision,
        samples=sample or [],
        profile=profile,
        card=card_of(card, flags),
        metrics=metrics_of(flags["metric"]),
        lineage=lineage_of(flags["data_digest"], flags["code_commit"], flags["parameter"]),
        contract=contract_of(contract),
        certificate=certificate,
        notes=flags["notes"] or "",
    )
    with opened(registry) as found, tempfile.TemporaryDirectory(prefix="flyball-package-") as made:
        with models_read([] if source is None else [str(source)], f"register {name}"):
            pack(contents, Path(made, "package"), _resolve(found, Path(made)))
        receipt = found.register(Path(made, "package"), name, actor=acting, reason=reason)
        with act_is_done(receipt):
            shown = found.show(f"{name}@{receipt.version}")
            before = found.show(f"{name}@{shown.number - 1}") if shown.number > 1 and not json else None
    _print(shown, before, json)


def _resolve(registry: Acting, scratch: Path) -> Callable[[str], PackageFolder]:
    """Return a function that fetches the registered versions that a decision uses."""
    from flyball.registry.packages.deployment import PackageFolder

    def resolve(ref: str) -> PackageFolder:
        folder = scratch / "used" / ref
        folder.parent.mkdir(exist_ok=True)
        found = registry.fetch(ref, folder)
        return PackageFolder(found.name, found.number, found.root, folder)

    return resolve


def _print(version: VersionDetail, before: VersionDetail | None, json: bool) -> None:
    if printed_as_json(version, json):
        return
    total = sum(file.size for file in version.files)
    say(f"{version.name}@{version.number}   {short(version.root)}   {size(total)}   {version.kind}, tier {version.tier}")
    if before is not None and _files(version) == _files(before):
        say(f"its files equal those of {before.name}@{before.number}; only its card and metadata may differ")
    next_step(*waits_for(version))


def _files(version: VersionDetail) -> dict[str, str]:
    """The version's files without its metadata."""
    from flyball.registry.packages.meta import META

    return {file.name: file.digest for file in version.files if file.name != META}
