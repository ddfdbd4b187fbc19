"""A client of a schema registry: schemas by id, ids by schema, each requested once.

There are two kinds of failures. One that concerns a record (its schema id is unknown) is a `SerdeError`, and
the `on_error` policy applies to the record. One that does not (no answer, no permission, a schema that may
not be registered) is a `RegistryError`, which stops the slot and loses nothing; it is `retryable` if waiting
helps."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from tidegate.config.config import without_login
from tidegate.errors import RegistryError, SerdeError

R = TypeVar("R")

DEFAULTS = {"timeout": 5, "max.retries": 6, "retries.wait.ms": 500, "retries.max.wait.ms": 4000}
"""The client's own defaults would wait forever. Here a call fails after about 8 seconds; such slow failures,
and the back-off of slots, keep an app alive while its registry is away."""
RETRY_SECONDS = (0.1, 0.4)
"""A registry of several nodes may know an id slightly later than the records that carry it."""
NO_RETRY_SECONDS = 10.0
"""For so long after failed retries, ids are requested once: a topic full of unknown ones would block its
slot."""
REMEMBER_UNKNOWN_SECONDS = 60.0
MOST_UNKNOWN = 10_000
NOT_FOUND = (40401, 40402, 40403)
"""No such subject, version, schema. Any other 404 comes from a server that is not a registry."""
_NO_REGISTRY = (ValueError, TypeError, LookupError, AttributeError)
"""What the client raises for responses that do not come from a registry."""
RETRIABLE = (408, 429, 500, 502, 503, 504)


class Registered(NamedTuple):
    """A schema as the registry has it."""

    id: int
    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[Registered, ...] = ()
    """The schemas that it refers to, each preceded by those that it refers to itself."""


class Registry:
    """One registry. Thread-safe."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.url = ", ".join(without_login(one.strip()) for one in str(settings.get("url", "")).split(","))
        self._client = _client(settings, self.url)
        self._schemas: dict[int, Registered] = {}
        self._unknown: dict[int, float] = {}
        self._retry_from = 0.0

    def schema(self, schema_id: int) -> Registered:
        """Return the schema of an id. Raises SerdeError `unknown-schema` if there is none."""
        found = self._schemas.get(schema_id)
        if found is None:
            found = self._schemas[schema_id] = self._fetch(schema_id)
        return found

    def register(self, subject: str, kind: str, text: str) -> int:
        """Return the id of a schema under a subject; register it if it is not registered."""
        return self._id(subject, kind, text, self._client.register_schema)

    def find(self, subject: str, kind: str, text: str) -> int:
        """Return the id of a schema that is registered under the subject."""
        return self._id(
            subject, kind, text, lambda *arguments: self._client.lookup_schema(*arguments).schema_id
        )

    def latest(self, subject: str) -> Registered:
        """Return the newest schema of a subject."""
        found = self._request(
            f"the latest schema of {subject!r}", lambda: self._client.get_latest_version(subject)
        )
        return self._registered(found.schema_id, found.schema)

    def _id(self, subject: str, kind: str, text: str, request: Callable[..., Any]) -> int:
        from confluent_kafka.schema_registry import Schema

        what = f"a schema of {subject!r}"
        found = self._request(what, lambda: request(subject, Schema(text, kind)))
        if not isinstance(found, int):
            raise self._error(what, 200, 0, "no id")
        return found

    def _fetch(self, schema_id: int) -> Registered:
        if self._unknown.get(schema_id, 0.0) > time.monotonic():
            raise _unknown(schema_id)
        for wait in (*(RETRY_SECONDS if time.monotonic() > self._retry_from else ()), None):
            try:
                found = self._request(f"schema {schema_id}", lambda: self._client.get_schema(schema_id))
                return self._registered(schema_id, found)
            except _NotFoundError:
                if wait is not None:
                    time.sleep(wait)
        if len(self._unknown) >= MOST_UNKNOWN:
            self._unknown.clear()
        self._retry_from = time.monotonic() + NO_RETRY_SECONDS
        self._unknown[schema_id] = time.monotonic() + REMEMBER_UNKNOWN_SECONDS
        raise _unknown(schema_id)

    def _registered(self, schema_id: int, schema: Any) -> Registered:
        if not isinstance(schema_id, int) or not isinstance(schema.schema_str, str):
            self._client.clear_caches()  # the client caches invalid responses too
            raise self._error(f"schema {schema_id}", 200, 0, "no schema")
        named: list[Registered] = []
        for one in schema.references or ():
            where = f"version {one.version} of {one.subject!r}"
            found = self._request(where, partial(self._client.get_version, one.subject, one.version))
            inner = self._registered(found.schema_id, found.schema)
            named += [*inner.references, inner._replace(references=())]
        return Registered(schema_id, schema.schema_type or "AVRO", schema.schema_str, tuple(named))

    def _request(self, what: str, call: Callable[[], R]) -> R:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return call()
        except SchemaRegistryError as error:
            raise self._error(what, error.http_status_code, error.error_code, error.error_message) from None
        except _NO_REGISTRY as error:
            raise self._error(what, 200, 0, f"an invalid response ({type(error).__name__})") from None
        except Exception as error:  # noqa: BLE001 - each HTTP library that it may use has its own
            raise RegistryError(
                "registry-unreachable",
                f"{self.url} did not answer a request for {what} ({type(error).__name__})",
                "nothing is lost: the slot tries again; check [registry] url, TLS and the network",
                retryable=True,
            ) from None

    def _error(self, what: str, status: int, code: int, message: str) -> RegistryError:
        details = f"{self.url} returned {status} for {what}: {str(message)[:300]}"
        if code in NOT_FOUND or (status == 404 and self.url.startswith("mock:")):
            return _NotFoundError(
                "not-registered", details, "register the schema first, or use register=True"
            )
        if status in (401, 403):
            return RegistryError("registry-refused", details, 'set "basic.auth.user.info" under [registry]')
        if status in (409, 422):
            hint = "add defaults to new fields, or change the subject's compatibility"
            return RegistryError("schema-refused", details, hint)
        hint = "check [registry] url: it may not be a schema registry"
        return RegistryError("registry-failed", details, hint, retryable=status in RETRIABLE)


class _NotFoundError(RegistryError):
    """The registry answered, and does not have what was requested."""


def _client(settings: dict[str, Any], url: str) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise RegistryError(
            "missing-extra", f"the registry's client is not installed: {error}", "pip install tidegate[avro]"
        ) from None
    try:
        return SchemaRegistryClient.new_client({**DEFAULTS, **settings})
    except (ValueError, TypeError, OSError) as error:  # its message may contain the secret
        names = ", ".join(sorted(settings))
        raise RegistryError(
            "bad-registry",
            f"the client for {url} cannot be created from [registry] {names} ({type(error).__name__})",
            "use the settings of confluent-kafka's SchemaRegistryClient; check that files exist",
        ) from None


def _unknown(schema_id: int) -> SerdeError:
    return SerdeError(
        "unknown-schema",
        f"the registry has no schema {schema_id}",
        'read the topic with the registry it was written with, or set on_error="dead-letter" on the source',
    )
