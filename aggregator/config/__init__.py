"""Loads YAML, `--set` and references into one typed, checked, frozen `Config`."""

from aggregator.config.checks import warnings
from aggregator.config.load import load, load_text
from aggregator.config.mask import masked
from aggregator.config.render import options_table
from aggregator.config.schema import Config

__all__ = ["Config", "load", "load_text", "masked", "options_table", "warnings"]
