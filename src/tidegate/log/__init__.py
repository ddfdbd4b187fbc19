"""The log: partitioned, append-only topics with transactions."""
