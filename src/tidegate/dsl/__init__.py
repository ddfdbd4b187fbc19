"""What users write: streams and tables, step by step."""
