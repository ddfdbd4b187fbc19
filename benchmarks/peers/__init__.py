"""The same count per key in other engines, on the same broker, each in processes of its own."""
