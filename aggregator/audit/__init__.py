"""What is known about a running or stopped aggregation: status, lag, history of positions."""
