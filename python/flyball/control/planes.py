"""The data planes of a control loop: the server in this process, or servers that watch a folder.

Must not know registries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import urllib3

from flyball.native.server_documents import Deployments

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flyball.documents.snapshot import Bundle
    from flyball.native.server import Server

_ASK_S = 0.5
_ANSWER_BYTES_MAX = 4 << 20


class ServerPlane:
    """The server in this process."""

    def __init__(self, server: Server, node: str) -> None:
        self._server, self._node = server, node
        self.waiting = False

    def apply(self, bundle: Bundle) -> None:
        """Load and swap; a refused deployment keeps its old document."""
        self._server.apply(bundle.to_bytes())

    def reports(self) -> dict[str, Deployments]:
        """The server's report: served, refused and warm deployments."""
        return {self._node: self._server.deployments()}


class FolderPlane:
    """Servers that watch a folder: `flyballd --snapshot DIR/index.json --watch`."""

    def __init__(self, folder: Path, urls: Sequence[str]) -> None:
        """`urls`: the servers' addresses, for their reports."""
        self._folder, self._urls = folder, urls
        self._generation = 0
        self._http = urllib3.PoolManager(timeout=urllib3.Timeout(_ASK_S), retries=False)
        self.waiting = bool(urls)

    def apply(self, bundle: Bundle) -> None:
        """Write the snapshot, its index last."""
        bundle.write(self._folder)
        self._generation = bundle.parsed_index().generation
        self.waiting = bool(self._urls)

    def reports(self) -> dict[str, Deployments]:
        """The servers' reports, without servers that do not answer."""
        found = {url: report for url in self._urls if (report := self._asked(url)) is not None}
        current = [report for report in found.values() if report.refused or report.generation == self._generation]
        self.waiting = len(current) < len(self._urls)
        return found

    def _asked(self, url: str) -> Deployments | None:
        try:
            answer = self._http.request("GET", f"{url.rstrip('/')}/v1/deployments", preload_content=False)
            with answer:
                return Deployments.model_validate_json(answer.read(_ANSWER_BYTES_MAX))
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            return None
