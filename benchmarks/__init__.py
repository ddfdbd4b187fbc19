"""Benchmarks: `python -m benchmarks.<name>` measures one thing and reports whether its targets hold."""
