"""Fetches and verifies sets of jars, and finds a Java to run them."""

from aggregator.datapath.jars.fetch import CACHE_VARIABLE, cache_folder, download, jars
from aggregator.datapath.jars.find_java import java_command, java_home
from aggregator.datapath.jars.java_for_spark import spark_java_home
from aggregator.datapath.jars.spark_home import HOME_VARIABLE, spark_home

__all__ = [
    "CACHE_VARIABLE",
    "HOME_VARIABLE",
    "cache_folder",
    "download",
    "jars",
    "java_command",
    "java_home",
    "spark_home",
    "spark_java_home",
]
