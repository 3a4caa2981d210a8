"""The admin API as one application: reads, acts, limits, problem documents and OpenAPI.

It never touches the data plane.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from flyball.control.admin.acts import acts
from flyball.control.admin.bounds import Bounds
from flyball.control.admin.callers import Gatekeeper
from flyball.control.admin.context import Problem
from flyball.control.admin.problems import answer_problems, unforeseen
from flyball.control.admin.reads import reads
from flyball.control.admin.uploads import Uploads

if TYPE_CHECKING:
    from flyball.control.admin.lazy_registry import LazyRegistry
    from flyball.registry.local import LocalRegistry

_SIGN_BYTES_MAX = 6 << 20  # a bundle of at most 4 MiB, and a release
_LARGER: dict[re.Pattern[str], int | None] = {
    re.compile(r"^/v1/registry/[^/]+/sign$"): _SIGN_BYTES_MAX,
    re.compile(r"^/v1/(registry/[^/]+/register|import)$"): None,
}
_ABOUT = """Versions of models and decisions: registration, signatures, approvals, placements and their history.

Every request needs an API key in `Authorization: Bearer KEY`; its roles decide what it may do. Refusals are
`application/problem+json` with a stable `code`, and the next step in `next`. Every refused act is an event, too.
Private keys are never sent: signers and approvers sign on their own machines."""


def admin_app(registry: LocalRegistry | LazyRegistry, uploads: Uploads | None = None) -> FastAPI:
    """The application for a registry, without FastAPI's pages that load code from other hosts."""
    from flyball import __version__

    app = FastAPI(
        title="flyball registry", version=__version__, description=_ABOUT, docs_url=None, redoc_url=None,
        separate_input_output_schemas=False,
    )  # fmt: skip
    app.state.registry = registry
    app.state.gatekeeper = Gatekeeper(registry)
    app.state.uploads = uploads or Uploads()
    app.include_router(reads)
    app.include_router(acts)
    app.get("/live", tags=["questions"], summary="Whether the server answers; needs no key")(_live)
    answer_problems(app)
    app.add_middleware(Bounds, larger=_LARGER, failed=unforeseen)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _live() -> dict[str, bool]:
    """For load balancers: says nothing about the registry."""
    return {"live": True}


def _document(app: FastAPI) -> dict[str, Any]:
    """FastAPI's document with the schema of problems, which no route declares."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
        )
        schema = Problem.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
        schemas = document["components"]["schemas"]
        schemas.update(schema.pop("$defs", {}))
        schemas["Problem"] = schema
        app.openapi_schema = document
    return app.openapi_schema
