"""The gate: pauses and resumes single keys in strict per-key order."""
