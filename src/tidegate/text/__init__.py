"""Text for people: render bytes as readable values, and parse typed text into bytes."""
