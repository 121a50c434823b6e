"""A cluster with a policy about new topics, that of tests/java/policies, and with ACLs."""

from __future__ import annotations

import os
from pathlib import Path

from aggregator.datapath.connector.build import compile_java
from aggregator.datapath.jars import jars, java_command
from aggregator.extras.embedded.cluster import EmbeddedCluster
from support.broker_classes import broker_options
from support.java_tests import SOURCES
from support.locked import PASSWORD, USER

POLICY = {"create.topic.policy.class.name": "policies.Forbidden"}


class PolicedCluster(EmbeddedCluster):
    """Its brokers have our classes beside their own; the user may do what ACLs allow."""

    def __init__(self, name: str, classes: Path) -> None:
        self.classes = classes
        super().__init__(
            name,
            config=POLICY,
            sasl_users={USER: PASSWORD},
            acls=True,
            java_options=broker_options(),
        )

    def start(self) -> EmbeddedCluster:
        """As any other cluster, once the policy is compiled."""
        (compiler,) = jars("compiler")
        source = SOURCES / "policies" / "Forbidden.java"
        compile_java(java_command(), compiler, jars("broker"), [source], self.classes)
        return super().start()

    def _java(self) -> list[str]:
        *command, class_path = super()._java()
        return [*command, os.pathsep.join((class_path, str(self.classes)))]
