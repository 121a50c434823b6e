"""The dashboard: its files, and the documents that its pages show."""

from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from aggregator.api.instance import Here
from aggregator.api.permissions import CallerError
from aggregator.status.overview import Overview, SourcePage, overview, source_page

FILES = Path(__file__).parent / "ui"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing of another host, nothing inline, and in no frame of another page."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    # Another version of the aggregator has other files.
    "cache-control": "no-cache",
}


class _Files(StaticFiles):
    """Files with the headers of the dashboard."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The answer for a file, also one that there is not."""
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response


router = APIRouter(prefix="/api", tags=["dashboard"])
files = _Files(directory=FILES, html=True)
"""The dashboard, as it is served under `/ui`."""


# Plain functions: a large status takes a while to write down.
@router.get("/overview")
def whole(here: Here) -> Overview:
    """Every source in a line, and what needs a person."""
    status = here.status()
    return overview(status, here.holder.earlier(), here.control.titles)


@router.get("/sources/{alias}")
def source(here: Here, alias: str) -> SourcePage:
    """One source, topic by topic."""
    status = here.status()
    found = source_page(status, here.holder.earlier(), here.control.titles, alias)
    if found is None:
        raise CallerError(404, f"there is no source {alias}")
    return found


def page_for(request: Request) -> Response | None:
    """Browsers that ask for `/` are led to the dashboard; tools are not."""
    wants = request.headers.get("accept", "")
    return RedirectResponse("/ui/") if "text/html" in wants else None
