"""Options for the Javas of tests, which start, work for seconds and end."""

from __future__ import annotations

QUICK_ONLY = "-XX:TieredStopAtLevel=1"
"""Compiles quickly, and never again with what was learnt since."""
TRUSTING = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Does not check classes: of those that are in no archive a start checks thousands."""
ROOM = "-XX:ReservedCodeCacheSize=256m"
"""For compiled code. Without the optimising compiler there are 48 MB, which tests fill: what is
used again is thrown away, looked for and compiled again, an eighth of such a Java's CPU."""
QUICK_START = f"{QUICK_ONLY} -XX:+UseSerialGC {ROOM} {TRUSTING}"
"""For `spark.driver.extraJavaOptions`: half the CPU of a start and a recovery, slower later."""
CLASSES = "-XX:MetaspaceSize=256m"
"""So much room for classes is taken without a collection of everything each time it grows."""
OF_SUBMIT = f"{QUICK_ONLY} -XX:ParallelGCThreads=1 {CLASSES} {ROOM} {TRUSTING}"
"""For SPARK_SUBMIT_OPTS: the optimising compiler would never pay."""
