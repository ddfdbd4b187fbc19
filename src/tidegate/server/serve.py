"""Run a server until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import anyio.to_thread
import uvicorn

from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.errors import ConfigError
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.reopening import ReopeningLog
from tidegate.server.app import make_app
from tidegate.server.connection import Connection
from tidegate.server.guard import LARGEST_HEAD
from tidegate.server.replicas import Replicas
from tidegate.server.serving import Serving
from tidegate.server.settings import ServerSettings
from tidegate.server.streams import Streams
from tidegate.server.tokens import Tokens

THREADS = 100
CONNECTIONS = 2_000
"""Besides those of model streams."""
SHUTDOWN_SECONDS = 3
UNSENT_BYTES = 64 << 10
OTHER_FILES = 1_000
"""Of the log, of replicas and so on."""
REFUSED_BY_NAME = 64 << 10
"""A request head that exceeds the limit by up to this many bytes is refused as `head-too-large`; a larger one
closes the connection."""


class Server(uvicorn.Server):
    """A server that ends its streams when it stops, and reports its URL."""

    def __init__(
        self,
        config: uvicorn.Config,
        listening: socket.socket,
        serving: Serving,
        started: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._listening = listening
        self._serving = serving
        self._report_started = started

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        super().run(sockets or [self._listening])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        await super().startup(sockets)
        if self.started:
            self._report_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._serving.end()
        await super().shutdown(sockets)
        await self._drop_connections()

    async def _drop_connections(self) -> None:
        """Close connections that did not end in time, or were accepted while the others were shut down: the
        event loop ends next, and would leave their sockets open."""
        while self.server_state.connections:
            for one in list(self.server_state.connections):
                one.transport.abort()
            await asyncio.sleep(0)


def serve(config: Config, settings: ServerSettings, started: Callable[[str], None]) -> None:
    """Serve the log of a config until SIGINT or SIGTERM. `started` is called with the URL."""
    _allow_files(CONNECTIONS + settings.model_streams)
    with prepared(config, settings, started) as server, _frozen_objects():
        # uvicorn raises the signal again after it has shut down.
        before = {number: signal.signal(number, _nothing) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            server.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _frozen_objects() -> Iterator[None]:
    """Leave the objects that exist now out of garbage collections. Those of imported modules are about
    100,000 and live as long as the process; a collection of the oldest generation would stop all threads for
    60 ms and more to look through them."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def prepared(config: Config, settings: ServerSettings, started: Callable[[str], None]) -> Iterator[Server]:
    """Prepare a server with its port, log and replicas, and release them at the end of the block."""
    tokens = None if settings.tokens is None else Tokens(config.folder / settings.tokens)
    location = LogLocation.of(config)
    listening = listen(settings)
    with closing(listening), closing(ReopeningLog(lambda: open_log(location, create=False))) as log:
        replicas = Replicas(log, (config.folder / config.state_dir).parent)
        streams = Streams(settings.streams, settings.streams_per_client)
        serving = Serving(log, SystemClock(), replicas, streams, tokens, model_streams=settings.model_streams)
        with closing(serving):
            options = uvicorn.Config(
                make_app(serving, settings),
                access_log=False,
                log_level="warning",
                lifespan="off",
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=LARGEST_HEAD + REFUSED_BY_NAME,
                limit_concurrency=CONNECTIONS + settings.model_streams,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                ssl_certfile=_path(config, settings.certificate),
                ssl_keyfile=_path(config, settings.private_key),
                http=Connection,
                ws="none",
            )
            url = url_of(listening, settings)
            yield Server(options, listening, serving, lambda: started(url))


def _allow_files(count: int) -> None:
    """Raise the limit of open files of this process for so many connections, as far as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(settings: ServerSettings) -> socket.socket:
    """Bind the socket before anything else, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named as TCP, so that asyncio turns Nagle's delay off: a response is written in two parts.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            # For all connections: what a client is not ready to take stays out of the kernel, too.
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        made.bind((settings.host, settings.port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise ConfigError(
            "cannot-listen", f"{settings.host}:{settings.port}: {error.strerror}", "use another --port"
        ) from None
    return made


def url_of(listening: socket.socket, settings: ServerSettings) -> str:
    """The URL of the server."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    kind = "http" if settings.certificate is None else "https"
    return f"{kind}://{host}:{listening.getsockname()[1]}"


def _path(config: Config, name: str | None) -> Path | None:
    return None if name is None else config.folder / name


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Ignore the signal: the server has ended."""
