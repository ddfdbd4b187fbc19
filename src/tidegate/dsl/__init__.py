"""The API for declaring streams and tables."""
