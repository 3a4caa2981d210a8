"""`flyball doctor`: checks this machine, and prints the command that fixes each problem."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from typing import Annotated

import typer

from flyball.cli.option import AsJson, option
from flyball.cli.output import console, print_json
from flyball.cli.tuning import Finding, tuning
from flyball.errors import FlyballError


def doctor(
    ort_path: Annotated[bool, option("Print only the path of the ONNX Runtime library.", "--ort-path")] = False,
    json: AsJson = False,
) -> None:
    """Check this machine: cores, memory, ONNX Runtime, permissions and tail-latency settings, with a fix for each.

    flyball doctor
    """
    if ort_path:
        from flyball.native.boundary import ort_library

        library = str(ort_library())
        print_json({"ort_path": library}) if json else typer.echo(library)
        return

    findings = [*_runtime(), *_native(), *_extras()]
    broken = any(finding.needed and not finding.good for finding in findings)
    if json:
        print_json({"able_to_serve": not broken, "findings": [asdict(finding) for finding in findings]})
    else:
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False, show_header=False)
        for _ in range(4):
            table.add_column(overflow="fold")  # a truncated path cannot be copied
        for finding in findings:
            mark = "[green]yes[/green]" if finding.good else "[red]no[/red]" if finding.needed else "[yellow]no[/yellow]"
            table.add_row(finding.name, mark, escape(finding.found), escape(finding.fix))
        console().print(table)
        console().print("This machine cannot serve yet; fix the red lines." if broken else "This machine can serve.")
    if broken:
        raise typer.Exit(1)


def _runtime() -> list[Finding]:
    from flyball.native.boundary import ort_library

    try:
        return [Finding("ONNX Runtime", True, str(ort_library()), needed=True)]
    except FlyballError as error:
        return [Finding("ONNX Runtime", False, error.message, error.next_step or "", needed=True)]


def _native() -> list[Finding]:
    from flyball.bench.table import size
    from flyball.documents.config.server import ServerConfig
    from flyball.native.machine import build_info, machine

    try:
        build, here = build_info(), machine()
    except FlyballError as error:
        return [Finding("native extension", False, error.message, error.next_step or "", needed=True)]
    optimised = not build.debug_assertions
    built = f"{build.version} {build.commit[:12]} {build.profile} {build.target}, rustc {build.rustc}"
    findings = [Finding("native extension", True, built, needed=True)]
    if not optimised:
        findings.append(Finding("optimised build", False, "debug build: not for measurements", "make build"))
    quota = "no quota" if here.cpu_quota is None else f"quota of {here.cpu_quota:g} cores"
    cpus = f"{len(here.cpus)} in the affinity mask ({_ranges(here.cpus)}), {quota}: {here.lanes} lanes"
    limit = "no limit" if here.memory_limit_bytes is None else f"limit of {size(here.memory_limit_bytes)}"
    memory = f"{size(here.memory_bytes)}, {limit}"
    findings += [
        Finding("cores", here.lanes > 0, cpus, needed=True),
        Finding("processor", True, here.cpu_model),
        Finding("memory", True, memory),
        Finding("kernel", True, here.kernel),
    ]
    findings += [
        Finding(f"right: {right.name}", right.granted, right.why, "" if right.granted else right.grant)
        for right in here.rights
    ]
    return findings + tuning(here, ServerConfig().connections_max)


def _extras() -> list[Finding]:
    wanted = {
        "grpc": ("gRPC in the client", "grpc"),
        "triton": ("Triton's config.pbtxt", "google.protobuf"),
        "demo": ("flyball demo", "lightgbm"),
    }
    findings = []
    for extra, (name, module) in wanted.items():
        found = _is_installed(module)
        fix = "" if found else f"pip install 'flyball[{extra}]'"
        findings.append(Finding(name, found, "installed" if found else "not installed", fix))
    return findings


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing, too
        return False


def _ranges(numbers: list[int]) -> str:
    """0-3,8 for [0, 1, 2, 3, 8]."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(str(end) for end in part) for part in parts)
