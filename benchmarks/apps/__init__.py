"""Apps that benchmarks run on Spark: executors import them by name."""
