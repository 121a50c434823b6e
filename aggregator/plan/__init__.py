"""Plans routes, hub topics, lanes and positions from the config and the clusters. Pure."""

from aggregator.plan.plan import Plan, make_plan

__all__ = ["Plan", "make_plan"]
