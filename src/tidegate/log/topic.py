"""A topic: the spec to create it, and the description that the log returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.errors import ConfigError
from tidegate.log.names import check_topic_name

DAY_MS = 24 * 3600 * 1000
MAX_RECORD_BYTES = 1_048_588
LATEST_TIMESTAMP = 253_402_300_799_999
POLICIES = ("delete", "compact", "compact,delete")

# Kafka's names and defaults, except retention.ms: an embedded log keeps history unless configured otherwise,
# because a replay can only recalculate what the log still holds.
DEFAULTS: dict[str, int] = {
    "retention.ms": -1,
    "retention.bytes": -1,
    "delete.retention.ms": DAY_MS,
    "min.compaction.lag.ms": 0,
    "max.compaction.lag.ms": 2**63 - 1,
    "segment.bytes": 1 << 30,
    "segment.ms": 7 * DAY_MS,
    "max.message.bytes": MAX_RECORD_BYTES,
    "message.timestamp.after.max.ms": 3_600_000,
    "message.timestamp.before.max.ms": 2**63 - 1,
}
RATIO = "min.cleanable.dirty.ratio"
TIMES, EVENT_TIMES = "message.timestamp.type", "CreateTime"
"""Whose timestamps records have. Users cannot set it: a log that replaces event times changes results."""
POLICY = "cleanup.policy"


def check_config(config: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of the config; raise ConfigError for an unknown name or an invalid value."""
    for name, text in config.items():
        if name == POLICY:
            if text not in POLICIES:
                raise ConfigError(
                    "bad-topic-config",
                    f"cleanup.policy {text!r} is unknown",
                    f"use one of {', '.join(POLICIES)}",
                )
        elif name == RATIO:
            _number(name, text, float, 0.0, 1.0)
        elif name in DEFAULTS:
            _number(name, text, int, -1 if name.startswith("retention.") else 0, 2**63 - 1)
        else:
            known = ", ".join(sorted([*DEFAULTS, RATIO, POLICY]))
            raise ConfigError("bad-topic-config", f"topic config {name!r} is unknown", f"use one of: {known}")
    return dict(config)


def _number(name: str, text: str, kind: type[int] | type[float], low: float, high: float) -> None:
    try:
        value = kind(text)
    except (TypeError, ValueError):
        value = kind(low) - 1
    if not low <= value <= high:
        raise ConfigError(
            "bad-topic-config",
            f"topic config {name} = {text!r} is not a number from {low} to {high}",
            "use a number in this range",
        )


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create."""

    name: str
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_topic_name(self.name)
        if not 1 <= self.partitions <= 10_000:
            raise ConfigError(
                "bad-partitions",
                f"topic {self.name!r} cannot have {self.partitions} partitions",
                "use 1 to 10000",
            )
        check_config(self.config)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as the log describes it.

    `uid` changes when a topic is deleted and created again under the same name. `starts` holds the first
    offset of each partition; above 0 it means that older records were deleted.
    """

    name: str
    uid: str
    config: Mapping[str, str]
    starts: tuple[int, ...]

    @property
    def partitions(self) -> int:
        return len(self.starts)

    @property
    def policy(self) -> str:
        return self.config.get(POLICY, "delete")

    @property
    def compacts(self) -> bool:
        return "compact" in self.policy

    @property
    def keeps_times(self) -> bool:
        """Whether records keep the event times that they were written with."""
        return self.config.get(TIMES, EVENT_TIMES) == EVENT_TIMES

    @property
    def history_cut(self) -> bool:
        return any(self.starts)

    def setting(self, name: str) -> int:
        """Return a numeric config value, or its default."""
        return int(self.config.get(name, DEFAULTS[name]))
