"""Differential models: state as a fold of ordered diffs, and one patch from any version to the newest.

For an API of your own over the table of a sink (docs/sinks.md): `from_columns` makes a ModelRow of a database
row, `answer` the frame for a client that holds a token. A client applies the patch of a frame with `apply`.
"""

from tidegate.models.answer import Frame, answer
from tidegate.models.columns import from_columns
from tidegate.models.patch import Patch, apply
from tidegate.models.row import NEVER, ModelRow

__all__ = ["NEVER", "Frame", "ModelRow", "Patch", "answer", "apply", "from_columns"]
