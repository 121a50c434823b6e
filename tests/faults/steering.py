"""What a person, or a new password, does to one source, one step after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from faults.steps import step
from faults.world import ALIASES, World
from support.locked import PASSWORD, change_password

TARGET = ALIASES[-1]
WATCHED_SECONDS = 40.0
"""Longer than the checkpoint interval of this scenario, so that a batch of each lane ends in it."""
LOCKED_SECONDS = 40.0
WARM_SECONDS = 120.0
"""For this long nothing is done: Java compiles the code that the load runs through."""


def steer(world: World) -> None:
    """Pause and resume a source, remove and add it, have it refuse our login and take it again."""
    file = world.folder / "app" / "aggregator.yaml"
    whole = file.read_text("utf-8")
    (world.folder / "ask.yaml").write_text(whole, "utf-8")
    sources = {alias: it for alias, it in world.config.sources.items() if alias != TARGET}
    fewer = to_yaml(world.config.model_copy(update={"sources": sources}))
    cluster = world.sources[TARGET]

    def reload(text: str) -> None:
        file.write_text(text, "utf-8")
        _command(world, "reload")

    step(world, "nothing is done, soon after the start", "", lambda: time.sleep(WARM_SECONDS))
    step(world, "nothing is done", "", lambda: time.sleep(WATCHED_SECONDS))
    _step(world, f"{TARGET} is paused", lambda: _command(world, "pause", TARGET))
    _step(world, f"{TARGET} is resumed", lambda: _command(world, "resume", TARGET))
    _step(world, f"{TARGET} is removed from the config", lambda: reload(fewer))
    _step(world, f"{TARGET} is added to the config", lambda: reload(whole))
    _step(
        world,
        f"{TARGET} is restarted and refuses our login",
        lambda: change_password(cluster, PASSWORD, "another", quietly=True),
        LOCKED_SECONDS,
    )
    back = time.monotonic()
    _step(
        world,
        f"{TARGET} is restarted and takes our login",
        lambda: change_password(cluster, "another", PASSWORD, quietly=True),
        LOCKED_SECONDS,
    )
    world.wait_for_records(back, f"{TARGET} takes our login", alias=TARGET)


def _step(
    world: World, what: str, act: Callable[[], None], seconds: float = WATCHED_SECONDS
) -> None:
    def watched() -> None:
        act()
        time.sleep(seconds)

    step(world, what, TARGET, watched)


def _command(world: World, *args: str) -> None:
    ask: Path = world.folder / "ask.yaml"
    result = CliRunner().invoke(app, [*args, "-c", str(ask)])
    if result.exit_code:
        world.note(f"aggregator {' '.join(args)} ended with {result.exit_code}: {result.output}")
