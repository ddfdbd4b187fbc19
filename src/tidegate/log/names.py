"""Which names may be given, and the names that tidegate gives.

Names end up in topic names, file names and URLs, so the rule is the narrowest of theirs. An internal name
is written down in the manifest when the thing is born and looked up there afterwards: nothing that runs
computes it a second time.
"""

from __future__ import annotations

import re

from tidegate.errors import ConfigError

MAX_GIVEN = 200
MAX_TOPIC = 249
HEADER_PREFIX = "tidegate."

_LEGAL = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_GIVEN}}}")
_BORN_LATER = re.compile(r".*\.g[0-9]+")


def check_name(kind: str, name: str) -> str:
    """The name itself, if a user may give it to a thing of this kind ("topic", "store", "app", ...).

    Raises `ConfigError`: `illegal-name` for what some topic, file system or URL cannot hold,
    `reserved-name` for what could be taken for a name of our own.
    """
    if not isinstance(name, str) or not _LEGAL.fullmatch(name) or name in (".", ".."):
        raise ConfigError(
            "illegal-name",
            f"{kind} name {_short(name)} cannot be used",
            f"use 1 to {MAX_GIVEN} of the characters a-z A-Z 0-9 . _ - (and more than dots)",
        )
    if name.startswith("__"):
        raise ConfigError(
            "reserved-name", f"{kind} name {_short(name)} starts with __, as Kafka's own do", "drop the __"
        )
    if _BORN_LATER.fullmatch(name):
        raise ConfigError(
            "reserved-name",
            f"{kind} name {_short(name)} ends in .g and a number, as names of later generations do",
            "choose another ending, such as -g2",
        )
    return name


def check_header(name: str) -> str:
    """The name itself, if user code may set a header of this name.

    Kafka allows any text, so foreign headers pass; only ours are kept apart, as `reserved-name`, and what
    is no text (not a str, a lone surrogate) is an `illegal-name`.
    """
    try:
        name.encode()
    except (AttributeError, UnicodeEncodeError):
        raise ConfigError(
            "illegal-name", f"header name {_short(name)} is not text that UTF-8 can hold", "use a plain str"
        ) from None
    if name.startswith(HEADER_PREFIX):
        raise ConfigError(
            "reserved-name",
            f"header name {_short(name)} starts with {HEADER_PREFIX}",
            f"{HEADER_PREFIX}* headers are written by tidegate alone; choose another prefix",
        )
    return name


def is_internal_header(name: str) -> bool:
    """Whether a header is bookkeeping between tasks. Why a record is a dead letter is for people."""
    return name.startswith(HEADER_PREFIX) and not name.startswith(f"{HEADER_PREFIX}error.")


def changelog(app: str, store: str, born: int = 1) -> str:
    """The changelog of a store that was born in a generation."""
    return _internal(app, store, born, "changelog")


def repartition(app: str, name: str, born: int = 1) -> str:
    """The internal topic behind a `group_by` or another change of keys."""
    return _internal(app, name, born, "repartition")


def gate(app: str, name: str, what: str) -> str:
    """A topic of a gate: its status, trigger, admitted or audit."""
    return _topic(app, f"{app}-{check_name('gate', name)}-{what}")


def staging(app: str, topic: str, generation: int) -> str:
    """Where the rows of a table topic wait while a generation is recalculated."""
    check_name("topic", topic)
    if generation < 1:
        raise ConfigError("illegal-name", f"generation {generation} of {topic!r}", "generations count from 1")
    return _topic(app, f"{app}-{topic}.g{generation}-staging")


def positions(app: str) -> str:
    """The topic of the stream tasks' positions."""
    return _topic(app, f"{app}-positions")


def control(app: str) -> str:
    """The topic of epochs, plans, stages and manifests."""
    return _topic(app, f"{app}-control")


def status(app: str) -> str:
    """The topic of landings and running numbers."""
    return _topic(app, f"{app}-status")


def dead_letters(app: str) -> str:
    """The topic of records that failed under `on_error = "dead-letter"`."""
    return _topic(app, f"{app}-dead-letters")


def writer_id(app: str, generation: int, epoch: int, slot: int | str) -> str:
    """The id under which a slot's (or a stage's) transactional writer is opened, and fenced."""
    return f"{check_name('app', app)}.g{generation}.{epoch}.{slot}"


def driver_id(app: str, role: str) -> str:
    """The writer id of a driver; opening it fences another driver of the same app and role."""
    return f"{check_name('app', app)}.{role}.driver"


def _internal(app: str, name: str, born: int, ending: str) -> str:
    check_name("store" if ending == "changelog" else "repartition", name)
    if born < 1:
        raise ConfigError("illegal-name", f"generation {born} of {name!r}", "generations count from 1")
    mark = "" if born == 1 else f".g{born}"
    return _topic(app, f"{app}-{name}{mark}-{ending}")


def _topic(app: str, topic: str) -> str:
    check_name("app", app)
    if len(topic) > MAX_TOPIC:
        raise ConfigError(
            "illegal-name",
            f"topic name {_short(topic)} has {len(topic)} characters, and Kafka allows {MAX_TOPIC}",
            "shorten the app id or the name within it",
        )
    return topic


def _short(name: object) -> str:
    text = repr(name)
    return text if len(text) <= 80 else f"{text[:60]}...{text[-15:]}"
