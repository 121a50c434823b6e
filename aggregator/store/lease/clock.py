"""The clocks of this machine, read together; the one that counts sleep where there is one."""

from __future__ import annotations

import time

from aggregator.plan.lease import Moment

STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux's monotonic clock stops while the machine sleeps; this one does not."""


def now() -> Moment:
    """This moment, by both clocks."""
    return Moment(time.clock_gettime(STEADY), time.time())
