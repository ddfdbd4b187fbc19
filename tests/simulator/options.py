"""How large a world is, and what it stands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.simulator.program import KINDS


@dataclass(frozen=True, slots=True)
class Options:
    """A world to build. `page` is the most records of a partition that one poll gives; `markers` says
    whether the end of a transaction takes an offset in the model log; `gate` whether one stands in front."""

    partitions: int = 2
    stores: tuple[str, ...] = KINDS
    log: Literal["model", "sqlite"] = "model"
    page: int = 3
    markers: bool = True
    gate: bool = False
