"""One broker of an embedded cluster: a java process with a folder and ports of its own."""

import socket
from collections.abc import Sequence
from pathlib import Path

from aggregator.extras.embedded.broker_settings import LOOPBACK, NodePorts
from aggregator.extras.embedded.processes import GuardedProcess, log_tail
from aggregator.extras.embedded.topics import alive_nodes
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.errors import ClusterError

START_SECONDS = 90.0
STOP_SECONDS = 30.0


class PortTakenError(ClusterError):
    """Someone else took a port between our choice and the broker's start; try with others."""


class Broker:
    """One broker of a cluster: one java process, with a folder and ports that stay the same."""

    def __init__(
        self,
        node: int,
        home: Path,
        ports: NodePorts,
        command: Sequence[str],
        host: str = LOOPBACK,
    ) -> None:
        self.node = node
        self._host = host
        self.home = home
        self.ports = ports
        self._command = command
        self._process: GuardedProcess | None = None
        self._remove: Path | None = None

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"{self._host}:{self.ports.client}"

    @property
    def pid(self) -> int:
        """Process id of the java process; `ClusterError` when it was never started."""
        return self._started().pid

    @property
    def alive(self) -> bool:
        """Whether the java process is there, running or paused."""
        return self._process is not None and self._process.alive

    def start(self) -> None:
        """Start it, or start it again with its port and data, and wait until it answers."""
        self.launch()
        self.wait_ready()

    def launch(self, remove: Path | None = None) -> None:
        """Start the process without waiting; does nothing when it is there already."""
        if remove is not None:
            self._remove = remove
        if not self.alive:
            self._process = GuardedProcess(self._command, self.log, remove=self._remove)

    def wait_ready(self, brokers: int = 1) -> None:
        """Wait until it answers and knows itself and `brokers` brokers in all to be alive."""

        def ready() -> bool:
            if not self.alive:
                tail = self.log_tail()
                taken = "Address already in use" in tail or "BindException" in tail
                error = PortTakenError if taken else ClusterError
                code = self._started().exit_code
                raise error(f"broker {self.node} ended with {code}; its log:\n{tail}")
            if not _accepts(LOOPBACK, self.ports.internal):
                return False
            if not _accepts(self._host, self.ports.client):
                return False
            nodes = alive_nodes(f"{LOOPBACK}:{self.ports.internal}")
            return self.node in nodes and len(nodes) >= brokers

        wait_until(
            ready,
            seconds=START_SECONDS,
            what=lambda: f"broker {self.node} does not answer; its log:\n{self.log_tail()}",
        )

    def kill(self) -> None:
        """Kill it (SIGKILL): nothing is flushed, nothing is said to anyone."""
        self._started().kill()

    def stop(self) -> None:
        """Stop it cleanly (SIGTERM); it is killed when it takes longer than 30 s."""
        self._started().terminate(STOP_SECONDS)

    def pause(self) -> None:
        """Stop all its threads (SIGSTOP): connections stay open and nothing answers."""
        self._started().pause()

    def resume(self) -> None:
        """Let it run after `pause` (SIGCONT)."""
        self._started().resume()

    @property
    def log(self) -> Path:
        """The file with everything it says."""
        return self.home / "broker.log"

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of its log."""
        return log_tail(self.log, lines)

    def _started(self) -> GuardedProcess:
        if self._process is None:
            raise ClusterError(f"broker {self.node} was never started")
        return self._process


def _accepts(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=1):
            return True
    except OSError:
        return False
