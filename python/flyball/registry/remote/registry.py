"""A registry behind HTTP, with the methods of `LocalRegistry`: what `--registry https://…` opens.

The API key comes from FLYBALL_REGISTRY_KEY. Redirects are not followed, so that the key reaches no other host.
Acts are never retried, because the first attempt may have succeeded.
"""
# ruff: noqa: ARG002, D102 - `LocalRegistry` documents the methods, and the server derives the actor from the API key

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, NewConnectionError

from flyball.errors import FlyballError, ServerFaultError, UnauthenticatedError, UnreachableError, UsageError
from flyball.registry.packages import tar
from flyball.registry.remote.problems import raised
from flyball.registry.views import (
    EventView,
    Head,
    MomentView,
    NameView,
    ReceiptView,
    StatementView,
    StatusView,
    VerifiedView,
    VersionDetail,
    VersionView,
    View,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from flyball.registry.acts.interface import Actor, Candidate

KEY = "FLYBALL_REGISTRY_KEY"
CA = "FLYBALL_REGISTRY_CA"
PLAINTEXT = "FLYBALL_REGISTRY_PLAINTEXT"
BUNDLE_TYPE = "application/vnd.flyball.bundle.v1+tar"
_ANSWER_BYTES_MAX = 64 << 20
_CHUNK_BYTES = 1 << 20
_CONNECT_S = 5.0
_QUESTION_S = 60.0
_ACT_S = 1800.0  # a promotion measures latency first
_HERE = frozenset({"127.0.0.1", "::1", "localhost"})
_View = TypeVar("_View", bound=View)


class RemoteRegistry:
    """See `LocalRegistry` for the methods. The API key decides who acts; `actor` is ignored."""

    def __init__(self, url: str, key: str | None = None, ca: str | None = None) -> None:
        self._url = _checked(url)
        self._key = key if key is not None else os.environ.get(KEY, "")
        if not self._key:
            raise UnauthenticatedError(
                f"{url} needs an API key", next_step=f"export {KEY}=…   (made by  flyball registry key add NAME --role ROLE)"
            )
        authorities = ca if ca is not None else os.environ.get(CA)
        self._pool = urllib3.PoolManager(1, retries=False, maxsize=4, ca_certs=authorities or None)

    def close(self) -> None:
        self._pool.clear()

    def whoami(self) -> dict[str, Any]:
        """The owner and the roles of the API key."""
        return self._ask("/v1/whoami")

    def head(self) -> Head:
        return self._view(Head, "/v1/head")

    def names(self, *, after: str | None = None, limit: int = 100) -> list[NameView]:
        page = self._ask("/v1/registry", after=after, limit=limit)
        return [NameView.model_validate(one) for one in page["names"]]

    def versions(self, name: str, *, before: int | None = None, limit: int = 100) -> list[VersionView]:
        page = self._ask(f"/v1/registry/{_part(name)}", before=before, limit=limit)
        return [VersionView.model_validate(one) for one in page["versions"]]

    def show(self, ref: str) -> VersionDetail:
        return self._view(VersionDetail, _place(ref))

    def history(self, name: str | None = None, *, after: int = 0, limit: int = 1000) -> list[EventView]:
        path = "/v1/events" if name is None else f"/v1/registry/{_part(name)}/history"
        return [EventView.model_validate(one) for one in self._ask(path, after=after, limit=limit)["events"]]

    def at(self, when: datetime | None = None, name: str | None = None) -> MomentView:
        return self._view(MomentView, "/v1/at", time=when.isoformat() if when else None, name=name)

    def status(self, name: str | None = None) -> StatusView:
        return self._view(StatusView, "/v1/status", name=name)

    def verify(self, *, quick: bool = False) -> VerifiedView:
        return VerifiedView.model_validate(self._ask("/v1/verify", wait_s=_ACT_S, quick="true" if quick else None))

    def statement(self, ref: str) -> StatementView:
        return self._view(StatementView, _place(ref) + "/statement")

    def bundle(self, ref: str) -> bytes:
        return self._bytes(_place(ref) + "/bundle")

    def release(self, ref: str) -> bytes:
        return self._bytes(_place(ref) + "/release")

    def register(self, folder: Path, name: str, *, actor: Actor, reason: str = "") -> ReceiptView:
        with tempfile.TemporaryFile() as file:
            tar.write(folder, file)
            path = f"/v1/registry/{_part(name)}/register"
            return ReceiptView.model_validate(self._send(path, file, tar.MEDIA_TYPE, reason))

    def import_file(self, file: Path, *, actor: Actor, reason: str = "") -> list[VersionView]:
        with file.open("rb") as content:
            page = self._send("/v1/import", content, BUNDLE_TYPE, reason)
        return [VersionView.model_validate(one) for one in page["versions"]]

    def fetch(self, ref: str, folder: Path) -> VersionDetail:
        from flyball.signing.manifest import manifest_of

        if folder.exists():
            raise UsageError(f"{folder} exists already", next_step="name a new folder")
        shown = self.show(ref)
        with tempfile.TemporaryFile() as file:
            with self._answer("GET", _place(ref) + "/package", _ACT_S) as answer:
                for chunk in answer.stream(_CHUNK_BYTES):
                    file.write(chunk)
            file.seek(0)
            folder.mkdir()
            tar.read(file, folder, sum(one.size for one in shown.files))
        found = manifest_of(folder, whole=True).files
        wanted = {one.name: one.digest.removeprefix("sha256:") for one in shown.files}
        if found != wanted:
            raise ServerFaultError(f"the received files are not those of {ref}", next_step="flyball registry verify")
        return shown

    def sign(self, ref: str, *, bundle: bytes, release: bytes, actor: Actor, reason: str = "") -> ReceiptView:
        return self._act(ref, "sign", bundle=json.loads(bundle), release=json.loads(release), reason=reason)

    def approve(self, ref: str, *, signature: str, key: str, actor: Actor, reason: str = "") -> ReceiptView:
        return self._act(ref, "approve", signature=signature, key=key, reason=reason)

    def reject(self, ref: str, *, actor: Actor, reason: str) -> ReceiptView:
        return self._act(ref, "reject", reason=reason)

    def promote(
        self,
        ref: str,
        environment: str,
        *,
        actor: Actor,
        reason: str = "",
        candidate: Candidate | None = None,
        break_glass: bool = False,
    ) -> ReceiptView:
        tried = None if candidate is None else {"share": candidate.share, "shadow": candidate.shadow}
        return self._act(ref, "promote", environment=environment, reason=reason, candidate=tried, break_glass=break_glass)

    def rollback(self, name: str, environment: str, *, actor: Actor, reason: str = "", to: int | None = None) -> ReceiptView:
        return self._post(name, "rollback", {"environment": environment, "reason": reason, "to": to})

    def alias(self, name: str, alias: str, version: int | None, *, actor: Actor, reason: str = "") -> ReceiptView:
        return self._post(name, "alias", {"alias": alias, "version": version, "reason": reason})

    def revoke(self, ref: str, *, actor: Actor, reason: str, stop: bool = False) -> ReceiptView:
        return self._act(ref, "revoke", reason=reason, stop=stop)

    def retire(self, ref: str, *, actor: Actor, reason: str = "") -> ReceiptView:
        return self._act(ref, "retire", reason=reason)

    def forget(self, node: str, *, actor: Actor, reason: str = "") -> ReceiptView:
        return self._posted("/v1/nodes/forget", {"node": node, "reason": reason})

    def _act(self, ref: str, act: str, **body: Any) -> ReceiptView:
        name, _, version = ref.partition("@")
        return self._post(name, act, {"version": version, **body})

    def _post(self, name: str, act: str, body: Mapping[str, Any]) -> ReceiptView:
        return self._posted(f"/v1/registry/{_part(name)}/{act}", body)

    def _posted(self, path: str, body: Mapping[str, Any]) -> ReceiptView:
        headers = {"content-type": "application/json"}
        with self._answer("POST", path, _ACT_S, json.dumps(body).encode(), headers) as answer:
            return ReceiptView.model_validate(_json(answer))

    def _send(self, path: str, file: Any, media_type: str, reason: str) -> dict[str, Any]:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        headers = {"content-type": media_type, "content-length": str(size)}
        with self._answer("POST", f"{path}?{urlencode({'reason': reason})}", _ACT_S, file, headers) as answer:
            return _json(answer)

    def _bytes(self, path: str) -> bytes:
        with self._answer("GET", path, _QUESTION_S) as answer:
            return _read(answer)

    def _view(self, view: type[_View], path: str, **query: Any) -> _View:
        return view.model_validate(self._ask(path, **query))

    def _ask(self, path: str, wait_s: float = _QUESTION_S, **query: Any) -> dict[str, Any]:
        told = {key: value for key, value in query.items() if value is not None}
        with self._answer("GET", f"{path}?{urlencode(told)}" if told else path, wait_s) as answer:
            return _json(answer)

    @contextmanager
    def _answer(
        self, method: str, path: str, wait_s: float, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """One request; the caller reads the body. Raises the registry's error for a refusal."""
        sent = {"authorization": f"Bearer {self._key}", "accept": "application/json, */*", **(headers or {})}
        timeout = urllib3.Timeout(connect=_CONNECT_S, read=wait_s)
        try:
            answer = self._pool.request(
                method, self._url + path, body=body, headers=sent, timeout=timeout, redirect=False, preload_content=False
            )
            try:
                if answer.status != 200:
                    raise raised(answer.status, _read(answer), answer.headers)
                yield answer
            finally:
                answer.release_conn()
        except HTTPError as error:
            raise self._unreachable(method, error) from error

    def _unreachable(self, method: str, error: HTTPError) -> UnreachableError:
        never = isinstance(error, NewConnectionError)
        unsure = method != "GET" and not never
        words = "it is unknown whether it was done" if unsure else "nothing was changed"
        told = UnreachableError(
            f"{self._url} does not answer: {error}; {words}",
            next_step="look before you try again:  flyball registry history NAME" if unsure else "is flyball admin running?",
        )
        told.maybe_served = unsure
        return told


def _checked(url: str) -> str:
    """Validate the address: a key must not travel unencrypted."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise UsageError(f"{url!r} is not a registry's address", next_step="write https://HOST:PORT")
    if parts.scheme == "http" and parts.hostname not in _HERE and os.environ.get(PLAINTEXT) != "allow":
        raise UsageError(
            f"{url} is not encrypted, and the API key would travel to another machine",
            next_step=f"use https://, or export {PLAINTEXT}=allow if the network is safe",
        )
    return url.rstrip("/")


def _part(name: str) -> str:
    return quote(name, safe="")


def _place(ref: str) -> str:
    name, _, version = ref.partition("@")
    return f"/v1/registry/{_part(name)}/versions/{_part(version)}"


def _read(answer: urllib3.BaseHTTPResponse) -> bytes:
    body = answer.read(_ANSWER_BYTES_MAX + 1)
    if len(body) > _ANSWER_BYTES_MAX:
        raise ServerFaultError(
            f"the answer has more than {_ANSWER_BYTES_MAX:,} bytes", next_step="ask for less with --limit"
        )
    return body


def _json(answer: urllib3.BaseHTTPResponse) -> dict[str, Any]:
    try:
        document = json.loads(_read(answer))
    except ValueError as error:
        raise FlyballError(f"the answer is not JSON: {error}", next_step="is this the address of flyball admin?") from error
    if not isinstance(document, dict):
        raise FlyballError("the answer is not an object", next_step="is this the address of flyball admin?")
    return document
