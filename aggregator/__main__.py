"""The command `aggregator`, also by `python -m`: it handles signals before all is imported.

That takes a second. Until then SIGTERM would be ignored by process 1 of a container, and SIGHUP
would end any process, though it only means a reload of the config.
"""

import os
import signal
import sys
from types import FrameType


class _Early:
    """The signals of `aggregator run` until it has handlers of its own."""

    def __init__(self) -> None:
        self.came = False
        """Whether a SIGHUP came, which is then for the handler that follows."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.end)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self)

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        """Keep it in mind."""
        self.came = True

    @staticmethod
    def end(_number: int, _frame: FrameType | None) -> None:
        """End at once, and well: nothing has begun."""
        os._exit(0)


def main() -> None:
    """Run the command line of this process, and end the process with its code."""
    if sys.argv[1:2] == ["run"]:
        _Early()
    from aggregator.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
