"""State: stores that log every change to a changelog, their restore, and their checks."""
