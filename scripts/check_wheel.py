"""Install the built wheel into empty environments and use it: without extras, then with each extra alone.

In each environment: `tidegate --help`, the embedded log, a test with the driver of `tidegate.testing`; what
an extra brings works where it is installed, and where it is not, the error names it. `make wheel` runs this.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")
EXTRAS = ("", "spark", "kafka", "avro", "server", "postgres")
NO_BROKER = "kafka://127.0.0.1:1"

APP = """
from tidegate import App, TableTopic, Topic
LINES, COUNTS = Topic("lines", str), TableTopic("counts", int)
app = App("counting")
app.stream(LINES).group_by("words", lambda line: line, key=str).count("counted").to(COUNTS)
"""
DRIVER_TEST = """
from counting import COUNTS, LINES, app
from tidegate.client import follow
from tidegate.testing import Driver
assert follow("http://127.0.0.1:1", "models", "id").state is None
with Driver(app, partitions=2) as driver:
    driver.send(LINES, "k", "sea", "sea", "sun")
    driver.run()
    assert driver.rows(COUNTS) == {"sea": 2, "sun": 1}, driver.rows(COUNTS)
"""
AVRO = """
from msgspec import Struct
from tidegate import Avro, Topic
class Order(Struct):
    number: int
Topic("orders", Avro[Order]())
"""
SERVER = """
import threading, urllib.request
from pathlib import Path
from tidegate.config.config import load_config
from tidegate.server.serve import prepared
from tidegate.server.settings import server_settings
urls, started = [], threading.Event()
with prepared(load_config(environ={}, folder=Path(".")), server_settings({"port": 0}, {}),
              lambda url: (urls.append(url), started.set())) as server:
    thread = threading.Thread(target=server.run)
    thread.start()
    assert started.wait(60)
    assert urllib.request.urlopen(urls[0] + "/openapi.json", timeout=60).status == 200
    assert b"ModelClient" in urllib.request.urlopen(urls[0] + "/client.js", timeout=60).read()
    server.should_exit = True
    thread.join()
"""


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment with the wheel and at most one extra, and a folder with a small app."""

    python: Path
    folder: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Python in this environment, with nothing of this checkout on its path."""
        ours = ("PYTHON", "TIDEGATE_", "PYSPARK_", "SPARK_", "VIRTUAL_ENV")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        command = [str(self.python), *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=environ, capture_output=True, text=True, check=False, timeout=300
        )

    def works(self, *arguments: str) -> str:
        ran = self.run(*arguments)
        assert ran.returncode == 0, f"{arguments} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def fails_with(self, code: str, *arguments: str) -> str:
        """The error of a command; it has this code, and no traceback where the command line shows it."""
        ran = self.run(*arguments)
        assert ran.returncode == 1, f"{arguments} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}"
        assert f"[{code}]" in ran.stderr, ran.stderr
        assert arguments[0] == "-c" or "Traceback" not in ran.stderr, ran.stderr
        return ran.stderr

    def misses(self, code: str, extra: str, *arguments: str) -> None:
        told = self.fails_with(code, *arguments)
        assert f"pip install tidegate[{extra}]" in told, told


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tidegate-wheel-") as name:
        folder = Path(name)
        wheel = built(folder)
        print(f"{wheel.name}: {wheel.stat().st_size // 1024} KiB")
        for extra in EXTRAS:
            began = time.monotonic()
            environment = installed(folder / (extra or "none"), wheel, extra)
            check_always(environment)
            for own, check in CHECKS.items():
                check(environment, own == extra)
            print(f"{extra or 'no extra'}: {time.monotonic() - began:.0f} s", flush=True)
    print("the wheel works without extras, and with each of them alone")


def built(folder: Path) -> Path:
    command = [str(UV), "build", "--wheel", "--no-build-isolation", "--quiet", "--out-dir", str(folder)]
    subprocess.run([*command, "--python", sys.executable, str(ROOT)], check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def installed(folder: Path, wheel: Path, extra: str) -> Environment:
    """A new environment, with the versions of the lock file."""
    subprocess.run([str(UV), "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    constraints = folder / "versions.txt"
    constraints.write_text("".join(f"{line}\n" for line in versions()))
    python = folder / "bin" / "python"
    wanted = f"tidegate[{extra}] @ {wheel.as_uri()}" if extra else f"tidegate @ {wheel.as_uri()}"
    command = [str(UV), "pip", "install", "--quiet", "--python", str(python), "-c", str(constraints), wanted]
    subprocess.run(command, check=True)
    work = folder / "work"
    work.mkdir()
    (work / "counting.py").write_text(APP)
    (work / "tidegate.toml").write_text('app = "counting:app"\nlog = "sqlite:///log.db"\n')
    return Environment(python, work)


def versions() -> list[str]:
    """The lock file without its hashes."""
    lines = (ROOT / "locks" / "all.txt").read_text().splitlines()
    return [line.removesuffix(" \\") for line in lines if re.match(r"[a-z]", line)]


def check_always(environment: Environment) -> None:
    cli = ("-m", "tidegate")
    assert "Usage" in environment.works(*cli, "--help")
    environment.works(*cli, "topics", "create", "lines")
    environment.works(*cli, "topics", "send", "lines", "k", "sea", "sun")
    told = environment.works(*cli, "topics", "tail", "lines", "--from-start", "--limit", "2", "--json")
    assert [json.loads(line)["value"] for line in told.splitlines()] == ["sea", "sun"], told
    environment.works("-c", DRIVER_TEST)


def check_spark(environment: Environment, there: bool) -> None:
    run = ("-m", "tidegate", "run", "--until-caught-up")
    if not there:
        environment.misses("no-pyspark", "spark", *run)
        return
    environment.works(*run)
    assert '"sea"' in environment.works("-m", "tidegate", "topics", "rows", "counts", "--json")


def check_kafka(environment: Environment, there: bool) -> None:
    """The extra avro brings Kafka's client too."""
    command = ("-m", "tidegate", "topics", "list", "--log", NO_BROKER)
    if there or environment.run("-c", "import confluent_kafka").returncode == 0:
        environment.fails_with("log-unreachable", *command)
    else:
        environment.misses("no-kafka", "kafka", *command)


def check_avro(environment: Environment, there: bool) -> None:
    if there:
        environment.works("-c", AVRO)
    else:
        told = environment.run("-c", AVRO).stderr
        assert "pip install tidegate[avro]" in told, told


def check_server(environment: Environment, there: bool) -> None:
    if there:
        environment.works("-c", SERVER)
    else:
        environment.misses("no-server", "server", "-m", "tidegate", "serve")


def check_postgres(environment: Environment, there: bool) -> None:
    """Nothing uses it yet."""
    found = environment.run("-c", "import psycopg, sqlalchemy").returncode == 0
    assert found == there


CHECKS: dict[str, Callable[[Environment, bool], None]] = {
    "spark": check_spark,
    "kafka": check_kafka,
    "avro": check_avro,
    "server": check_server,
    "postgres": check_postgres,
}


if __name__ == "__main__":
    main()
