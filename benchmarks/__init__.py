"""Benchmarks: `python -m benchmarks.<name>` measures one thing and tells whether its targets hold."""
