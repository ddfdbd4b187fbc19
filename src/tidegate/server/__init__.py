"""The HTTP API: gates, stores, topics and apps of a log, for any number of servers side by side."""
