"""Writes what is generated in docs/: options.md out of the schema, cli.md out of the help texts,
modules.md out of the first line of each module.

`make docs` runs it; a test fails when a page is not what it would write.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config import options_table
from aggregator.plan.lifecycle.stage import MEANINGS, TRANSITIONS, Stage

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "aggregator"
LAYERS = (
    "__init__",
    "model",
    "config",
    "plan",
    "datapath",
    "store",
    "kafka",
    "status",
    "features",
    "engine",
    "api",
    "extras",
    "cli",
    "__main__",
)
"""Parts of the package, each below those that may import it."""
WAYS_BEGIN = "<!-- stages: written by make docs -->\n"
WAYS_END = "<!-- end of stages -->\n"

COMMANDS = (
    (),
    ("demo",),
    ("run",),
    ("plan",),
    ("size",),
    ("check",),
    ("status",),
    ("lag",),
    ("top",),
    ("open",),
    ("sources",),
    ("sources", "list"),
    ("sources", "add"),
    ("sources", "remove"),
    ("sources", "reset"),
    ("sources", "restart"),
    ("sources", "pause"),
    ("sources", "resume"),
    ("pause",),
    ("resume",),
    ("reload",),
    ("positions",),
    ("positions", "show"),
    ("positions", "history"),
    ("positions", "set"),
    ("positions", "rewind"),
    ("backfill",),
    ("backfill", "list"),
    ("backfill", "cancel"),
    ("gaps",),
    ("gaps", "accept"),
    ("groups",),
    ("groups", "list"),
    ("groups", "translate"),
    ("groups", "apply"),
    ("groups", "cutover"),
    ("failover",),
    ("failback",),
    ("peek",),
    ("verify",),
    ("wait",),
    ("tee",),
    ("maintain",),
    ("events",),
    ("history",),
    ("quarantine",),
    ("quarantine", "list"),
    ("quarantine", "retry"),
    ("dedup",),
    ("dedup", "list"),
    ("dedup", "retry"),
    ("import",),
    ("mirror-maker",),
    ("replicator",),
    ("jars",),
    ("config",),
)
"""Every command, in the order of the page; a test holds that none is left out."""

MODULES_HEAD = """\
# Modules

One line per module, written by `make docs`. Imports go upwards in this list only.
[DESIGN.md](DESIGN.md#where-things-are) says what the folders are.

"""
OPTIONS_HEAD = """\
# Options of the config file

Written by `make docs` out of the schema. `aggregator config --schema` prints the same as JSON
Schema, `aggregator config -c FILE` the whole config in effect. How references, `--set` and Kafka
settings work: [configure.md](configure.md).

| option | takes | default | meaning |
|---|---|---|---|
"""

CLI_HEAD = """\
# Commands

Written by `make docs` out of the help texts.
"""


def options_page() -> str:
    """The text of options.md."""
    rows = [
        f"| `{row.path}` | {_cell(row.type)} | {_code(row.default)} | {_cell(row.description)} |"
        for row in options_table()
    ]
    return OPTIONS_HEAD + "\n".join(rows) + "\n"


def cli_page() -> str:
    """The text of cli.md."""
    parts = [CLI_HEAD]
    for words in COMMANDS:
        title = " ".join(("aggregator", *words))
        parts.append(f"## {title}\n\n```text\n{help_text(words)}```\n")
    return "\n".join(parts)


def help_text(words: tuple[str, ...]) -> str:
    """What `--help` of a command prints on a terminal of 80 columns."""
    done = CliRunner().invoke(
        app,
        [*words, "--help"],
        prog_name="aggregator",
        env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"},
        catch_exceptions=False,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.strip("\n").splitlines())


def design_page() -> str:
    """The text of DESIGN.md, with its tables of stages as they should be."""
    text = (DOCS / "DESIGN.md").read_text("utf-8")
    before, rest = text.split(WAYS_BEGIN)
    return before + WAYS_BEGIN + ways() + WAYS_END + rest.split(WAYS_END)[1]


def modules_page() -> str:
    """The text of modules.md."""
    return MODULES_HEAD + file_map()


def ways() -> str:
    """The stages of a source partition, and every way from one to another, as two tables."""
    lines = ["| stage | meaning |", "|---|---|"]
    lines += [f"| {stage} | {_cell(meaning)} |" for stage, meaning in MEANINGS.items()]
    lines += ["", "| from | what happens | to | when |", "|---|---|---|---|"]
    for way, it in TRANSITIONS.items():
        before, after = (
            ", ".join(stage for stage in Stage if stage in stages)
            for stages in (it.before, it.after)
        )
        lines.append(f"| {before} | {way} | {after} | {_cell(it.when)} |")
    return "\n".join(lines) + "\n"


@cache
def file_map() -> str:
    """A table with a line per module; KeyError for a part of the package without a layer.

    ValueError for a module that does not begin with its docstring.
    """
    rank = {name: number for number, name in enumerate(LAYERS)}
    rows = []
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE)
        part = rank[name.parts[0].removesuffix(".py")]
        # Not parsed: there are hundreds.
        first = path.read_text("utf-8").split("\n")[0]
        if not first.startswith('"""'):
            raise ValueError(f"{name} does not begin with its docstring")
        purpose = first.strip('"')
        order = (part, str(name.parent), path.name != "__init__.py", str(name))
        rows.append((order, f"| `{name}` | {_cell(purpose)} |"))
    lines = [line for _, line in sorted(rows)]
    return "\n".join(["| module | purpose |", "|---|---|", *lines]) + "\n"


def _code(text: str) -> str:
    words = ("required", "none", "its defaults", "as under topics")
    return text if text in words else f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


PAGES = {
    "options.md": options_page,
    "cli.md": cli_page,
    "modules.md": modules_page,
    "DESIGN.md": design_page,
}


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
