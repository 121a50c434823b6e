"""The command line: parse, call, render. Nothing else is decided here, and no Spark is imported."""
