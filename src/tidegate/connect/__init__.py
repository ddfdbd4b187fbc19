"""Connect to a log without Spark: send to topics and read them, typed."""
