"""The whole-batch path: the same operators over columns."""
