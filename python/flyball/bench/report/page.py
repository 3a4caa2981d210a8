"""The report as one self-contained HTML page: no script, no external files, plots inside, light and dark.

Names, descriptions and problems are untrusted; the template escapes them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.bench.report import texts
from flyball.bench.report.drawing import drawing, look, svg
from flyball.bench.report.plots import plots_of
from flyball.bench.report.summary import summarise
from flyball.bench.report.template import template
from flyball.bench.table import latency, percent, rate, size
from flyball.errors import needing

if TYPE_CHECKING:
    from flyball.bench.record import BenchRecord, Window
    from flyball.bench.report.summary import Summary
    from flyball.bench.scenario import Part

_TEMPLATE = Path(__file__).with_name("page.html.j2")


@dataclass(frozen=True, slots=True)
class _Picture:
    title: str
    says: str
    alt: str
    source: str


def write_page(record: BenchRecord | Summary, path: Path, raw: Path | None = None) -> Path:
    """Write the page of a record to `path`; `raw` is the record's path."""
    page = template(_TEMPLATE, latency=latency, rate=rate, size=size, percent=percent, span=texts.span)
    text = page.render(_context(summarise(record), raw))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _context(summary: Summary, raw: Path | None) -> dict[str, Any]:
    record = summary.record
    return {
        "record": record,
        "summary": summary,
        "texts": texts,
        "name": texts.name_of(record),
        "setting": texts.setting(summary),
        "partial": texts.partial(record),
        "rate_heading": texts.rate_heading(summary),
        "with_errors": any(subject.error_share for subject in summary.subjects),
        "colours": [look(index)["color"] for index in range(len(summary.subjects))],
        "kept_span": {kept.subject: texts.kept_span(kept) for kept in record.rates_kept},
        "pictures": _pictures(summary),
        "sweeps": {"Latency against rate": summary.curve, "Closed loops": summary.concurrency},
        "machine": _machine(record),
        "plan": _document(record.scenario or record.contract),
        "windows": [_window(window) for window in record.windows],
        "raw": str(raw) if raw else None,
    }


def _pictures(summary: Summary) -> list[_Picture]:
    names = ", ".join(subject.name for subject in summary.subjects)
    found = []
    with drawing():
        for plot in plots_of(summary):
            source = f"data:image/svg+xml;base64,{base64.b64encode(svg(plot.figure(summary))).decode()}"
            alt = f"Plot: {plot.title}, for {names}. The tables of this page have the figures."
            found.append(_Picture(plot.title, plot.says, alt, source))
    return found


def _machine(record: BenchRecord) -> list[tuple[str, str]]:
    """Everything needed to evaluate or repeat it, apart from the CPU flags."""
    machine, software, model, payloads = record.machine, record.software, record.model, record.payloads
    limits = [
        f"{machine.cgroup_cpu_quota:g} CPUs" if machine.cgroup_cpu_quota else "CPUs not limited",
        f"memory {size(machine.cgroup_memory_bytes)}" if machine.cgroup_memory_bytes else "memory not limited",
    ]
    found = [
        ("Processor", machine.cpu_model),
        ("CPUs online", str(machine.cpus_online)),
        ("CPUs allowed", _cpus(machine.cpus_allowed)),
        ("CPUs of the server", _cpus(machine.server_cpus)),
        ("CPUs of the generator", _cpus(machine.generator_cpus)),
        ("Governor", machine.governor or "unknown"),
        ("Memory", size(machine.memory_bytes)),
        ("cgroup limits", ", ".join(limits)),
        ("Kernel", machine.kernel),
        ("Virtualisation", machine.virtualisation or "none found"),
        ("flyball", f"{software.flyball_version}, commit {software.commit}, {software.profile} build for {software.target}"),
        ("Built with, running on", f"{software.rustc}; Python {software.python}"),
        ("ONNX Runtime", software.ort_version or "unknown"),
        ("Model", f"{model.name}, {size(model.size_bytes)}, {model.digest or 'digest not reported by the server'}"),
        ("Payloads", f"{payloads.count:,} from {payloads.source}, seed {payloads.seed}, {payloads.digest}"),
        ("Answers", "each compared with the expected one" if payloads.checked else "not checked"),
    ]
    for subject in record.subjects:
        parts = [subject.version, subject.url, " ".join(subject.command or []), subject.note]
        found.append((f"Server: {subject.name}", ", ".join(part for part in parts if part) or "—"))
    return found


def _cpus(cpus: list[int] | None) -> str:
    return "not pinned" if cpus is None else f"{len(cpus)} ({', '.join(map(str, cpus))})"


def _document(part: Part | None) -> str | None:
    """A scenario or contract as YAML."""
    if part is None:
        return None
    with needing("the page needs pyyaml", extra="bench"):
        import yaml
    written = part.model_dump(mode="json", exclude_none=True)
    return str(yaml.safe_dump(written, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110))


def _window(window: Window) -> dict[str, str]:
    """One row of the table of all windows. Figures under a saturated generator are not the server's."""
    result = window.result
    servers = result.bottleneck is None
    has_answers = servers and result.answered + result.timed_out > 0
    remarks = [result.bottleneck, *(f"{error.count:,} × {error.reason}" for error in result.errors)]
    if result.mismatched:
        remarks.append(f"{result.mismatched:,} × wrong answer")
    remarks += [result.ended_early, result.first_problem]
    return {
        "subject": window.subject,
        "phase": window.phase,
        "repeat": str(window.repeat + 1),
        "at": f"{window.started_at:%H:%M:%S}",
        "connections": str(window.plan.connections),
        "offered": rate(result.offered_per_s),
        "answered": rate(result.rate_per_s if servers else None),
        "sent": f"{result.sent:,}",
        "refused": f"{result.refused:,}",
        "failed": f"{result.failed:,}",
        "p50": latency(result.latency_us.p50 if has_answers else None),
        "p99": latency(result.latency_us.p99 if has_answers else None),
        "steal": percent(window.host.steal_share),
        "remarks": "; ".join(text for text in remarks if text),
    }
