"""Loads YAML, `--set` and references into one typed, checked, frozen `Config`."""

from aggregator.config.checks import warnings
from aggregator.config.kafka_settings import jvm_settings, librdkafka_settings
from aggregator.config.load import load, load_text
from aggregator.config.mask import mask_text, masked
from aggregator.config.render import json_schema, masked_yaml, options_table, to_yaml
from aggregator.config.schema import ClusterConfig, Config, HubConfig, SourceConfig
from aggregator.config.topics import TopicRules

__all__ = [
    "ClusterConfig",
    "Config",
    "HubConfig",
    "SourceConfig",
    "TopicRules",
    "json_schema",
    "jvm_settings",
    "librdkafka_settings",
    "load",
    "load_text",
    "mask_text",
    "masked",
    "masked_yaml",
    "options_table",
    "to_yaml",
    "warnings",
]
