"""A connection to a log without Spark: sending to topics and reading them, typed."""
