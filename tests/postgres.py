"""A real PostgreSQL in a folder of its own, reached over a socket in it, and ended by its process id."""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
PASSWORD = "a-secret-password"  # noqa: S105 - of a database that lives as long as a test run
START_SECONDS = 60.0


@functools.cache
def programs() -> Path | None:
    """The folder of PostgreSQL's programs; None if there are none."""
    found = shutil.which("postgres")
    if found is not None:
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
    return installed[-1].parent if installed else None


def _version(path: Path) -> int:
    number = path.parts[-3]
    return int(number) if number.isdigit() else 0


class Postgres:
    """One cluster. Nothing is synced: it ends with the run."""

    def __init__(self) -> None:
        bin_folder = programs()
        assert bin_folder is not None
        self._programs = bin_folder
        self.folder = Path(
            tempfile.mkdtemp(prefix="tidegate-postgres-", dir=MEMORY if MEMORY.is_dir() else None)
        )
        self._as: dict[str, Any] = {}
        if os.getuid() == 0:  # which PostgreSQL refuses
            user = pwd.getpwnam("postgres" if _has_user("postgres") else "nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        login = ["--username", "tidegate", "--pwfile", "password", "--auth", "scram-sha-256"]
        self._run("initdb", "-D", "data", *login, "--encoding", "UTF8", "--locale", "C", "--no-sync")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://tidegate:{PASSWORD}@/postgres?host={self.folder}"

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host=str(self.folder), user="tidegate", password=PASSWORD, dbname="postgres", autocommit=True
        )

    def start(self) -> None:
        output = (self.folder / "output").open("ab")
        options = ["-F", "-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}"]
        options += ["-c", "shared_buffers=32MB", "-c", "max_connections=30", "-c", "autovacuum=off"]
        process = self._process = subprocess.Popen(
            [self._programs / "postgres", "-D", "data", *options],
            cwd=self.folder,
            stdout=output,
            stderr=output,
            **self._as,
        )
        output.close()
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                assert process.poll() is None, (self.folder / "output").read_text()
                assert time.monotonic() < deadline, (self.folder / "output").read_text()
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends sessions and shuts down in order; SIGQUIT is a crash."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(START_SECONDS)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Postgres:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self.folder,
            capture_output=True,
            check=False,
            **self._as,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")


def _has_user(name: str) -> bool:
    return any(user.pw_name == name for user in pwd.getpwall())
