"""The config in force: one shared holder, which a reload changes."""

from dataclasses import dataclass

from aggregator.config.schema import Config


@dataclass(slots=True)
class InForce:
    """`config` is replaced as a whole, by the engine's thread alone, and read by any thread.

    A caller that does several things with it reads it once for all of them.
    """

    config: Config
