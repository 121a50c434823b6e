"""Documents of a running or a stopped aggregation, as REST, commands and notebooks tell them."""
