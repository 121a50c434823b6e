"""The error classes: which part handles each, and the exit code that each gives a command.

    AggregatorError                exit 1   anything not named below
    |-- ConfigError                exit 2   the user mends the config; nothing was touched
    |-- RefusedError               exit 2   the plan is refused; nothing was written
    |-- ClusterError               exit 3   one cluster cannot be reached or refuses us
    |   |-- ClusterCallError                one call to it failed (`discover`)
    |   |-- CredentialsError                what it wants to see of us cannot be had (`credentials`)
    |   |-- HubLostError                    the hub has lost records, which is noted (`commits`)
    |   |-- LateError                       it did not answer in time (`discover`)
    |   `-- PortTakenError                  a broker of the demo found its port taken (`embedded`)
    |-- CheckpointError            exit 1   the checkpoint cannot be read or written
    |   `-- CheckpointConflictError exit 4  another writer committed: this one must stop
    |       `-- HeldError                   another one has it, found before anything was written
    |-- JarsError                  exit 1   the jars cannot be had
    |-- RegistryError              exit 3   a schema registry has not given a schema (`registry`)
    |-- NotReadyError              exit 1   no command now: it starts or stops (`engine`)
    |-- CommandError                        the running instance refused a command (`cli`)
    |-- CallerError                exit 2   a request that is not for us to carry out (`serve`)
    |-- NotCompleteError           exit 5   the hub was not complete in time (`completeness`)
    |-- CutoverError                        a group did not come over in time (`groups`)
    |-- FailoverError                       a source was not copied in time (`failover`)
    |-- AbsentError                         a topic that was to be looked at is not there (`peek`)
    |-- StoppedError, StoppedEarlyError     a stop was requested before it was done
    `-- FailpointError                      a failpoint of the tests

A failure of one cluster among many is not raised at all: it is a `ClusterFailure` value in the
result (see `aggregator.model.values`). `ClusterError` is raised only where one cluster is all there
is, such as the hub. Foreign errors are translated once, in the edge that meets them, with `from`.
"""

from dataclasses import dataclass

EXIT_DONE = 0
EXIT_OTHER = 1
EXIT_CONFIG = 2
EXIT_CLUSTER = 3
EXIT_DATA = 4
EXIT_NOT_YET = 5


class AggregatorError(Exception):
    """Base of every error raised on purpose; its text is written for the person who runs this."""

    exit_code: int = EXIT_OTHER


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the config: where, what, and what to do about it."""

    path: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: {self.reason}" if self.path else self.reason
        return f"{text} ({self.hint})" if self.hint else text


class ConfigError(AggregatorError):
    """The configuration is wrong. Carries every problem found, not only the first."""

    exit_code = EXIT_CONFIG

    def __init__(self, problems: list[Problem] | tuple[Problem, ...], source: str = "") -> None:
        self.problems = tuple(problems)
        self.source = source
        count = len(self.problems)
        where = f" in {source}" if source else ""
        head = f"{count} problem{'s' if count != 1 else ''}{where}:"
        super().__init__("\n".join([head, *(f"  - {problem}" for problem in self.problems)]))


class RefusedError(AggregatorError):
    """The plan holds refusals, so nothing is started. Carries each refusal as a sentence."""

    exit_code = EXIT_CONFIG

    def __init__(self, refusals: list[str] | tuple[str, ...]) -> None:
        self.refusals = tuple(refusals)
        super().__init__("\n".join(["refused:", *(f"  - {refusal}" for refusal in self.refusals)]))


class ClusterError(AggregatorError):
    """A Kafka cluster cannot be reached, or refuses us; the text names the cluster and the fix."""

    exit_code = EXIT_CLUSTER


class RegistryError(AggregatorError):
    """A schema registry did not do what it was asked for.

    `away`: it would not do it for another schema either. `code` is HTTP's, 0 without an answer, and
    `detail` the one that Confluent's API has beside it.
    """

    exit_code = EXIT_CLUSTER

    def __init__(self, text: str, *, away: bool = False, code: int = 0, detail: int = 0) -> None:
        self.away = away
        self.code = code
        self.detail = detail
        super().__init__(text)


class CheckpointError(AggregatorError):
    """The checkpoint table cannot be read or written."""


class CheckpointConflictError(CheckpointError):
    """Another writer wrote the checkpoint since we read it; continuing could write twice."""

    exit_code = EXIT_DATA


class HeldError(CheckpointConflictError):
    """Another instance has the checkpoint; found by a start that has written nothing yet."""


class JarsError(AggregatorError):
    """The jars that Spark or a broker needs are missing, wrong, or cannot be fetched."""
