"""Options for the Javas of tests, which start, work for seconds and end."""

from __future__ import annotations

TRUSTING = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Does not check classes: of those that are in no archive a start checks thousands."""
QUICK_START = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {TRUSTING}"
"""For `spark.driver.extraJavaOptions`: half the CPU of a start and a recovery, slower later."""
OF_SUBMIT = f"-XX:TieredStopAtLevel=1 -XX:ParallelGCThreads=1 {TRUSTING}"
"""For SPARK_SUBMIT_OPTS: the optimising compiler would never pay."""
