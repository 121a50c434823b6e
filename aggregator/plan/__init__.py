"""Config and discovered clusters go in; routes, hub topics, lanes and positions come out. Pure."""

from aggregator.plan.plan import Plan, make_plan

__all__ = ["Plan", "make_plan"]
