"""Reports to data catalogs, as OpenLineage events, what flows where."""
