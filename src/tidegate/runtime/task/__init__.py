"""A stream task: sources, merge order, positions, timers and error policies."""
