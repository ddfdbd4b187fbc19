"""Text for people: bytes as readable values, and typed text as bytes."""
