"""`aggregator open`: the dashboard of the running instance, in the browser of this machine."""

import webbrowser
from typing import Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.running import Absent, api_url, running_status
from aggregator.config.schema import Config
from aggregator.model.errors import AggregatorError


@command(
    "aggregator open -c aggregator.yaml",
    "aggregator open --print               (the address, for another machine's browser)",
    name="open",
    without=("output",),
)
def open_dashboard(
    call: Call,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the address, and open no browser.")
    ] = False,
) -> None:
    """Open the dashboard of the running instance.

    Prints its address as well. Where the API asks for a token, the page does: none is in the
    address, which a browser remembers.
    """
    url = dashboard_url(call.written)
    typer.echo(url)
    if not only_print and not _opened(url):
        typer.echo("no browser is found here: open that address in one", err=True)


def dashboard_url(config: Config) -> str:
    """Where the dashboard of the running instance is. AggregatorError when there is none."""
    url = api_url(config.api)
    if url is None:
        raise AggregatorError(
            f"there is no dashboard to open: api.listen is {config.api.listen}; set it to "
            "host:port, such as 127.0.0.1:8083, and start the aggregation again"
        )
    found = running_status(config)
    # To one that still starts, or asks for a token that we have not, the page says so itself.
    if isinstance(found, Absent) and not found.is_there:
        raise AggregatorError(
            f"there is no dashboard to open: {found.reason}; start it with aggregator run, or name "
            "the config that it was started with by -c"
        )
    return f"{url}/ui/"


def _opened(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
