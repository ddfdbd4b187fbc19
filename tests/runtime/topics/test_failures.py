"""What ended a slot reaches the user as the error that it was."""

from __future__ import annotations

import msgspec
import pytest

from tidegate import errors
from tidegate.errors import (
    ConfigError,
    FencedError,
    LogError,
    RegistryError,
    SerdeError,
    StateError,
    TidegateError,
    TopologyError,
    UpgradeError,
    UserCodeError,
)
from tidegate.runtime.topics.failures import KINDS, error_of, failure_of, failure_seen_by_driver
from tidegate.runtime.topics.status import Failure, Status

PLACE = ("lines", 2, 7)


def crossed(error: Exception) -> TidegateError:
    """As the driver raises it: over the status topic and back."""
    reported = msgspec.json.encode(failure_of(error, 3, 1, 2))
    failure = msgspec.json.decode(reported, type=Status)
    assert isinstance(failure, Failure)
    return error_of(failure, 4)


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("c", "m", "h"),
        LogError("c", "m", "h", retryable=True),
        RegistryError("c", "m", "h"),
        SerdeError("c", "m", "h", position=PLACE),
        StateError("c", "m", "h"),
        TopologyError("c", "m", "h"),
        UpgradeError("c", "m", "h"),
        UserCodeError("c", "m", "h", position=PLACE, generation=5),
    ],
    ids=lambda error: type(error).__name__,
)
def test_class_code_and_position_cross_the_status_topic(error: TidegateError) -> None:
    raised = crossed(error)
    assert type(raised) is type(error)
    assert (raised.code, raised.message, raised.hint) == ("c", "m (4 failures of slots)", "h")
    assert raised.retryable is error.retryable
    for field in ("position", "generation"):
        assert getattr(raised, field, None) == getattr(error, field, None)


def test_every_class_of_errors_is_known() -> None:
    made = {kind.__name__ for kind in vars(errors).values() if isinstance(kind, type)}
    of_others = {"TidegateError", "FencedError", "ClientError"}  # no slot is a client
    assert {name for name in made if name.endswith("Error")} == {*KINDS, *of_others}
    assert type(crossed(FencedError("w"))) is LogError


def test_an_error_of_an_unknown_class_arrives_as_a_tidegate_error() -> None:
    raised = crossed(ValueError("no"))
    assert (type(raised), raised.code) == (TidegateError, "slot-failed")
    assert "ValueError: no" in raised.message
    later = msgspec.structs.replace(failure_of(StateError("c", "m"), 1, 1, 1), kind="NewerError")
    assert type(error_of(later, 1)) is TidegateError
    foreign = msgspec.structs.replace(later, kind="Exception")
    assert type(error_of(foreign, 1)) is TidegateError


def test_a_refused_topic_is_kept() -> None:
    error = LogError("record-too-large", "m")
    error.topic = "lines"
    raised = crossed(error)
    assert isinstance(raised, LogError)
    assert raised.topic == "lines"


def test_a_job_that_ended_without_a_report_is_lost() -> None:
    assert failure_seen_by_driver(RuntimeError("killed"), 1, 0, 1).code == "slot-lost"
    assert failure_seen_by_driver(StateError("corrupt-state", "m"), 1, 0, 1).kind == "StateError"


def test_an_older_status_record_without_a_class_is_read() -> None:
    old = b'{"type":"failure","epoch":1,"slot":0,"attempt":1,"code":"c","message":"m","hint":"h"}'
    assert msgspec.json.decode(old, type=Status) == Failure(1, 0, 1, "c", "m", "h")
