"""Check the names that users choose, and build the names of internal topics and writers.

Names become part of topic names, file names and URLs, so the rule is the strictest of the three. An internal
name is recorded in the manifest when the store or topic is created and looked up there afterwards: a running
app never computes it a second time.
"""

from __future__ import annotations

import re

from tidegate.errors import ConfigError

MAX_USER_NAME = 200
MAX_TOPIC = 249
HEADER_PREFIX = "tidegate."

_LEGAL = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_USER_NAME}}}")
_LEGAL_TOPIC = re.compile(rf"[a-zA-Z0-9._-]{{1,{MAX_TOPIC}}}")
_LATER_GENERATION = re.compile(r".*\.g[0-9]+")
_PREVIEW, _UPGRADE = ".preview.g0", ".upgrade.g0"
_OF_PREVIEW = re.compile(r".+\.(preview|upgrade)\.g0(-.*)?")


def check_name(kind: str, name: str) -> str:
    """Return the name if a user may choose it for this kind of thing ("topic", "store", "app", ...).

    Raises ConfigError: `illegal-name` for a name that a topic, file system or URL cannot hold,
    `reserved-name` for one that could be confused with an internal name.
    """
    if not isinstance(name, str) or not _LEGAL.fullmatch(name) or name in (".", ".."):
        raise ConfigError(
            "illegal-name",
            f"{kind} name {_short(name)} cannot be used",
            f"use 1 to {MAX_USER_NAME} of the characters a-z A-Z 0-9 . _ - (not only dots)",
        )
    if name.startswith("__"):
        raise ConfigError(
            "reserved-name",
            f"{kind} name {_short(name)} starts with __, like Kafka's internal topics",
            "remove the __",
        )
    if of_preview(name):
        raise ConfigError(
            "reserved-name",
            f"{kind} name {_short(name)} contains {_PREVIEW} or {_UPGRADE}, like topics of recalculations",
            "remove that part",
        )
    if _LATER_GENERATION.fullmatch(name):
        raise ConfigError(
            "reserved-name",
            f"{kind} name {_short(name)} ends in .g and a number, like the names of later generations",
            "choose another suffix, such as -g2",
        )
    return name


def preview(app: str) -> str:
    """Return the id of the throw-away app that previews a change of an app. No user's app can have it."""
    return check_name("app", app) + _PREVIEW


def upgrade(app: str) -> str:
    """Return the id of the throw-away app that recalculates an app for an upgrade."""
    return check_name("app", app) + _UPGRADE


def of_preview(name: str) -> bool:
    """Return whether a name is the id of a recalculation, for a preview or an upgrade, or that of one of its
    topics. Both are removed when it has ended, and no list shows them."""
    return isinstance(name, str) and _OF_PREVIEW.fullmatch(name) is not None


def check_topic_name(name: str) -> str:
    """Return the name if a topic may be created with it: one that a user may choose, or one of a preview."""
    return name if of_preview(name) and _LEGAL_TOPIC.fullmatch(name) else check_name("topic", name)


def check_app(app: str) -> str:
    """Return the id if it is that of a user's app or of a preview."""
    check_name("app", app.removesuffix(_PREVIEW).removesuffix(_UPGRADE))
    return app


def check_header(name: str) -> str:
    """Return the name if user code may set a header of this name.

    Kafka allows any text, so headers of other programs pass. Raises ConfigError `reserved-name` for the
    prefix of tidegate, and `illegal-name` for a name that is not text (not a str, or with a lone surrogate).
    """
    try:
        name.encode()
    except (AttributeError, UnicodeEncodeError):
        raise ConfigError(
            "illegal-name",
            f"header name {_short(name)} cannot be encoded as UTF-8",
            "use a str without lone surrogates",
        ) from None
    if name.startswith(HEADER_PREFIX):
        raise ConfigError(
            "reserved-name",
            f"header name {_short(name)} starts with {HEADER_PREFIX}",
            f"only tidegate may write {HEADER_PREFIX}* headers; choose another prefix",
        )
    return name


def is_internal_header(name: str) -> bool:
    """Return whether a header is bookkeeping between tasks. Headers of dead letters are not: they are for
    people."""
    return name.startswith(HEADER_PREFIX) and not name.startswith(f"{HEADER_PREFIX}error.")


def changelog(app: str, store: str, born: int = 1) -> str:
    """Return the name of the changelog topic of a store that was created in generation `born`."""
    return _internal(app, store, born, "changelog")


def repartition(app: str, name: str, born: int = 1) -> str:
    """Return the name of the internal topic behind a `group_by` or another change of keys."""
    return _internal(app, name, born, "repartition")


def gate(app: str, name: str, what: str) -> str:
    """Return the name of a gate's topic; `what` is status, trigger, admitted or audit."""
    return _topic(app, f"{app}-{check_name('gate', name)}-{what}")


def model(app: str, name: str, what: str) -> str:
    """Return the name of a model's topic; `what` is requests or events."""
    return _topic(app, f"{app}-{check_name('model', name)}-{what}")


def staging(app: str, topic: str, generation: int) -> str:
    """Return the name of the topic that holds a table topic's rows while a generation is recalculated."""
    check_name("topic", topic)
    if generation < 1:
        raise _bad_generation(topic, generation)
    return _topic(app, f"{app}-{topic}.g{generation}-staging")


def positions(app: str) -> str:
    """Return the name of the topic that holds the stream tasks' positions."""
    return _topic(app, f"{app}-positions")


def control(app: str) -> str:
    """Return the name of the topic that holds epochs, plans, stages and manifests."""
    return _topic(app, f"{app}-control")


def status(app: str) -> str:
    """Return the name of the topic to which slots and tasks publish their status and metrics."""
    return _topic(app, f"{app}-status")


def dead_letters(app: str) -> str:
    """Return the name of the topic that takes records which failed under `on_error = "dead-letter"`."""
    return _topic(app, f"{app}-dead-letters")


def redrives(app: str) -> str:
    """Return the name of the topic that records which dead letters were sent back."""
    return _topic(app, f"{app}-redrives")


def writer_id(app: str, generation: int, epoch: int, slot: int | str) -> str:
    """Return the id under which the transactional writer of a slot or a stage is opened and fenced."""
    return f"{check_app(app)}.g{generation}.{epoch}.{slot}"


def driver_id(app: str, role: str) -> str:
    """Return the writer id of a driver; opening it fences another driver of the same app and role."""
    return f"{check_app(app)}.{role}.driver"


def _internal(app: str, name: str, born: int, ending: str) -> str:
    check_name("store" if ending == "changelog" else "repartition", name)
    if born < 1:
        raise _bad_generation(name, born)
    mark = "" if born == 1 else f".g{born}"
    return _topic(app, f"{app}-{name}{mark}-{ending}")


def _topic(app: str, topic: str) -> str:
    check_app(app)
    if len(topic) > MAX_TOPIC:
        raise ConfigError(
            "illegal-name",
            f"topic name {_short(topic)} has {len(topic)} characters, but Kafka allows only {MAX_TOPIC}",
            "shorten the app id or the name of the store, topic or gate",
        )
    return topic


def _bad_generation(name: str, generation: int) -> ConfigError:
    return ConfigError(
        "illegal-name",
        f"{name!r} cannot have generation {generation}: generations count from 1",
        "use a generation of 1 or more",
    )


def _short(name: object) -> str:
    text = repr(name)
    return text if len(text) <= 80 else f"{text[:60]}...{text[-15:]}"
