"""Sees to it that the connector's jar is in whatever is built of this project.

An sdist and a wheel carry it (`artifacts` in pyproject.toml), so who installs one of them compiles
nothing. From a checkout it is compiled when it is not there or not current.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConnectorJar(BuildHookInterface[BuilderConfig]):
    """Builds `aggregator/datapath/connector/aggregator-connector.jar` unless it is current."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What an isolated build has to install first: nothing, if the jar is current.

        Otherwise what the sources are compiled against, and a Java where there is none.
        """
        self._find_the_sources()
        from aggregator.datapath.connector.build import jar_is_current
        from aggregator.datapath.jars import java_command
        from aggregator.model.errors import JarsError

        if jar_is_current():
            return []
        core = self.metadata.core
        needed = [each for each in core.dependencies if each.startswith("pyspark==")]
        try:
            java_command()
        except JarsError:
            needed += core.optional_dependencies["java"]
        return needed

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Make the jar current before files are collected.

        Exits with what is wrong when it is neither there nor can be built.
        """
        self._find_the_sources()
        from aggregator.datapath.connector.build import ensure_jar
        from aggregator.model.errors import AggregatorError

        say: Callable[[str], None] = self.app.display_info
        try:
            ensure_jar(say)
        except AggregatorError as error:
            # A traceback through the build backend would hide the reason.
            sys.exit(f"the jar of aggregator/datapath/connector cannot be had: {error}")

    def _find_the_sources(self) -> None:
        """Let the package be imported from where it is built, before any that is installed."""
        if self.root not in sys.path:
            sys.path.insert(0, self.root)
