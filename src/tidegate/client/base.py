"""What the two clients have in common: everything but the sockets."""

from __future__ import annotations

import contextlib
import random
import ssl
import time
from http.client import HTTPException
from typing import Any

from tidegate.client.held import Held, Unusable, Version
from tidegate.client.requests import Bearer, Target
from tidegate.client.storage import Storage, restored, stored
from tidegate.errors import ClientError

SILENCE = 40.0
LONGEST_WAIT = 10.0
FIRST_WAIT = 1.0
CONNECT_SECONDS = 10.0
ATTEMPTS = 5
"""So often a write is sent."""
PIECE = 64 << 10


class Followed:
    """One id of a model, as a client holds it."""

    def __init__(
        self,
        url: str,
        model: str,
        id: str,
        *,
        token: str | None = None,
        state: Any = None,
        bearer: Bearer = None,
        storage: Storage | None = None,
        silence: float = SILENCE,
        longest_wait: float = LONGEST_WAIT,
        patience: float | None = None,
    ) -> None:
        """Connects when it is entered or iterated over.

        `token` and `state`: a version to begin with, both or none; `storage` keeps it between two runs.
        `bearer`: a grant or a token, or a function that returns one for each request. `silence`: seconds
        without a byte after which the connection counts as lost; servers send one every 15. `longest_wait`:
        seconds between two attempts at most. `patience`: seconds without a connection after which ClientError
        `server-unreachable` is raised; None means never.
        """
        self._target = Target(url, model, id, bearer)
        self._model = model
        self._storage = storage
        first = None if storage is None else restored(model, id, storage.load())
        self._held = Held(id, first or Version(token, state))
        self._silence = silence
        self._longest_wait = longest_wait
        self._patience = patience
        self._failures = 0
        self._failing_since = 0.0
        self._prepare()

    def _prepare(self) -> None:
        """Make what belongs to threads, or to the event loop."""

    @property
    def version(self) -> Version:
        """The version that is held: state and token that belong together."""
        return self._held.version

    @property
    def state(self) -> Any:
        """The state; None if the id does not exist. Do not change it: versions share their parts."""
        return self.version.state

    @property
    def token(self) -> str | None:
        return self.version.token

    @property
    def gone(self) -> bool:
        """Whether the id does not exist."""
        return self.version.gone

    def _receive(self, line: bytes) -> bool:
        changed = self._held.receive(line)
        self._failures = 0
        return changed

    def _save(self, changed: bool) -> None:
        if changed and self._storage is not None:
            self._storage.save(stored(self._model, self._target.id, self.version))

    def _failed(self, error: Exception) -> float:
        """Return how many seconds to wait before the next attempt. Raises the error if none would succeed."""
        if isinstance(error, ClientError) and error.code == "bad-token":
            with contextlib.suppress(Unusable):
                self._held.mismatch()
        elif not self._is_temporary(error):
            raise error
        now = time.monotonic()
        if not self._failures:
            self._failing_since = now
        self._failures += 1
        if self._patience is not None and now - self._failing_since >= self._patience:
            raise unreachable(error) from error
        return back_off(self._failures, self._longest_wait)

    def _is_temporary(self, error: Exception) -> bool:
        if isinstance(error, ClientError):
            return error.code == "grant-ended" and self._target.renews_bearer
        return is_temporary(error)


def is_temporary(error: Exception) -> bool:
    """Whether a later attempt may succeed: a lost connection, a restart, a full server."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return False
    return isinstance(error, (Unusable, OSError, EOFError, HTTPException))


def unreachable(error: Exception) -> ClientError:
    message = f"there is no connection to the server: {str(error) or type(error).__name__}"
    return ClientError("server-unreachable", message, "check that it is running", retryable=True)


def back_off(failures: int, longest: float) -> float:
    """Full jitter: a random part of a wait that doubles up to the longest one."""
    return random.uniform(0, min(longest, FIRST_WAIT * 2.0 ** min(failures - 1, 20)))
