"""The one place where the steps meet: discover, plan, apply, stream, checkpoint, supervise, stop.

The public call is `aggregator.engine.application.run(config, ...)`.
"""
