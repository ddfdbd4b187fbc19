"""A schema registry: schemas by id, ids by schema, each asked for once.

Answers come in two kinds. What says something about one record (its schema id is unknown) is a
`SerdeError`, and the record meets its `on_error` policy. What says nothing about it (no answer, no
permission, a schema that may not be registered) is a `RegistryError`, which stops the slot and loses
nothing; `retryable` where only time is needed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tidegate.config.config import without_login
from tidegate.errors import RegistryError, SerdeError

R = TypeVar("R")

DEFAULTS = {"timeout": 5, "max.retries": 6, "retries.wait.ms": 500, "retries.max.wait.ms": 4000}
"""The client's own would wait for ever. Here a call gives up after about 8 seconds; so slow a failure, and
the back-off of slots, keep an app alive while its registry is away."""
ASK_AGAIN_SECONDS = (0.1, 0.4)
"""A registry of several nodes may know an id a moment later than the records that carry it."""
IMPATIENT_SECONDS = 10.0
"""After that was in vain, ids are asked for once: a topic full of unknown ones would hold its slot up."""
REMEMBER_UNKNOWN_SECONDS = 60.0
MOST_UNKNOWN = 10_000
NOT_FOUND = (40401, 40402, 40403)
"""No such subject, version, schema. Any other 404 comes from something that is no registry."""
_NO_REGISTRY = (ValueError, TypeError, LookupError, AttributeError)
"""What the client raises about answers that are none of a registry."""
RETRIABLE = (408, 429, 500, 502, 503, 504)


class Registered(NamedTuple):
    """A schema as the registry has it."""

    id: int
    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[Registered, ...] = ()
    """The schemas that it names, and before each of them those that it names itself."""


class Registry:
    """One registry. Safe to share between threads."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.url = ", ".join(without_login(one.strip()) for one in str(settings.get("url", "")).split(","))
        self._client = _client(settings, self.url)
        self._schemas: dict[int, Registered] = {}
        self._unknown: dict[int, float] = {}
        self._patient_at = 0.0

    def schema(self, schema_id: int) -> Registered:
        """The schema of an id. SerdeError `unknown-schema` if there is none."""
        found = self._schemas.get(schema_id)
        if found is None:
            found = self._schemas[schema_id] = self._fetch(schema_id)
        return found

    def register(self, subject: str, kind: str, text: str) -> int:
        """The id of a schema under a subject, where it is registered if it was not."""
        return self._id(subject, kind, text, self._client.register_schema)

    def find(self, subject: str, kind: str, text: str) -> int:
        """The id of a schema that somebody registered under the subject."""
        return self._id(subject, kind, text, lambda *asked: self._client.lookup_schema(*asked).schema_id)

    def latest(self, subject: str) -> Registered:
        """The newest schema of a subject."""
        found = self._ask(
            f"the latest schema of {subject!r}", lambda: self._client.get_latest_version(subject)
        )
        return self._registered(found.schema_id, found.schema)

    def _id(self, subject: str, kind: str, text: str, ask: Callable[..., Any]) -> int:
        from confluent_kafka.schema_registry import Schema

        what = f"a schema of {subject!r}"
        found = self._ask(what, lambda: ask(subject, Schema(text, kind)))
        if not isinstance(found, int):
            raise self._told(what, 200, 0, "no id")
        return found

    def _fetch(self, schema_id: int) -> Registered:
        if self._unknown.get(schema_id, 0.0) > time.monotonic():
            raise _unknown(schema_id)
        for wait in (*(ASK_AGAIN_SECONDS if time.monotonic() > self._patient_at else ()), None):
            try:
                found = self._ask(f"schema {schema_id}", lambda: self._client.get_schema(schema_id))
                return self._registered(schema_id, found)
            except _NotFoundError:
                if wait is not None:
                    time.sleep(wait)
        if len(self._unknown) >= MOST_UNKNOWN:
            self._unknown.clear()
        self._patient_at = time.monotonic() + IMPATIENT_SECONDS
        self._unknown[schema_id] = time.monotonic() + REMEMBER_UNKNOWN_SECONDS
        raise _unknown(schema_id)

    def _registered(self, schema_id: int, schema: Any) -> Registered:
        if not isinstance(schema_id, int) or not isinstance(schema.schema_str, str):
            self._client.clear_caches()  # it keeps also what is none
            raise self._told(f"schema {schema_id}", 200, 0, "no schema")
        named: list[Registered] = []
        for one in schema.references or ():
            where = f"version {one.version} of {one.subject!r}"
            found = self._ask(where, partial(self._client.get_version, one.subject, one.version))
            inner = self._registered(found.schema_id, found.schema)
            named += [*inner.references, inner._replace(references=())]
        return Registered(schema_id, schema.schema_type or "AVRO", schema.schema_str, tuple(named))

    def _ask(self, what: str, call: Callable[[], R]) -> R:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return call()
        except SchemaRegistryError as error:
            raise self._told(what, error.http_status_code, error.error_code, error.error_message) from None
        except _NO_REGISTRY as error:
            raise self._told(what, 200, 0, f"what cannot be understood ({type(error).__name__})") from None
        except Exception as error:  # noqa: BLE001 - each HTTP library that it may use has its own
            raise RegistryError(
                "registry-unreachable",
                f"{self.url} gave no answer ({type(error).__name__}) when asked for {what}",
                "nothing is lost: the slot tries again; check [registry] url, TLS and the network",
                retryable=True,
            ) from None

    def _told(self, what: str, status: int, code: int, message: str) -> RegistryError:
        said = f"{self.url} said {status} when asked for {what}: {str(message)[:300]}"
        if code in NOT_FOUND or (status == 404 and self.url.startswith("mock:")):
            return _NotFoundError("not-registered", said, "register the schema first, or use register=True")
        if status in (401, 403):
            return RegistryError("registry-refused", said, 'set "basic.auth.user.info" under [registry]')
        if status in (409, 422):
            hint = "give new fields defaults, or change the subject's compatibility"
            return RegistryError("schema-refused", said, hint)
        hint = "check [registry] url: it may be no registry"
        return RegistryError("registry-failed", said, hint, retryable=status in RETRIABLE)


class _NotFoundError(RegistryError):
    """The registry is there and does not know what was asked for."""


def _client(settings: dict[str, Any], url: str) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise RegistryError(
            "missing-extra", f"the registry's client is not installed: {error}", "pip install tidegate[avro]"
        ) from None
    try:
        return SchemaRegistryClient.new_client({**DEFAULTS, **settings})
    except (ValueError, TypeError, OSError) as error:  # what it says may hold the secret itself
        names = ", ".join(sorted(settings))
        raise RegistryError(
            "bad-registry",
            f"the client for {url} cannot be made of [registry] {names} ({type(error).__name__})",
            "use the names and forms of confluent-kafka's SchemaRegistryClient; check that files exist",
        ) from None


def _unknown(schema_id: int) -> SerdeError:
    return SerdeError(
        "unknown-schema",
        f"the registry has no schema {schema_id}",
        'read the topic with the registry it was written with, or set on_error="dead-letter" on the source',
    )
