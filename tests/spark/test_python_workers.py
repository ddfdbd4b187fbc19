"""Python workers of a session that tidegate starts: forked by its daemon, before there is any SQL engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import ConfigError
from tidegate.spark.python.tidegate_daemon import prefer_installed
from tidegate.spark.python_workers import FOLDER, daemon_conf
from tidegate.spark.session import start_session

PROGRAM = """
import json, os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from tidegate.config.config import load_config
from tidegate.spark.running import Running
from tidegate.spark.session import end_session, start_session
import shop

def facts(rows):
    import pyspark
    daemon = Path(f"/proc/{os.getppid()}")
    yield {
        "pyspark": pyspark.__file__,
        "ends with zip files": [Path(entry).suffix for entry in sys.path[-2:]] == [".zip", ".zip"],
        "daemon": (daemon / "cmdline").read_text().split("\\0")[2],
        "threads of the daemon": len(list((daemon / "task").iterdir())),
        "the user's path": os.environ["SHOP"] in sys.path,
    }

conf = {"spark.executorEnv.PYTHONPATH": os.environ["SHOP"]}
session, slots = start_session("shop", {"master": "local[1]", "conf": conf}, stages=False)
run = Running(shop.app, "shop:app", session, load_config(), slots=1, until_caught_up=True)
run.wait()
found = session.sparkContext.parallelize([0], 1).mapPartitions(facts).collect()[0]
found["session after a run"] = SparkSession._instantiatedSession is not None
found["rows"] = session.range(3).count()
found["session after a query"] = SparkSession._instantiatedSession is not None
end_session(session)
print(json.dumps(found))
"""
STOPPED = """
import json, os, signal
from pyspark import SparkContext
from tidegate.spark import session as module

session, _ = module.start_session("shop", {"master": "local[1]"}, stages=False)
session.stop()
try:
    session.range(1)
except Exception:
    found = {"stays stopped": SparkContext._active_spark_context is None}

gateway, module.JVM_SECONDS = session.sparkContext._gateway, 1
java = gateway.proc
gateway.shutdown = lambda: os.kill(java.pid, signal.SIGSTOP)
module.end_session(session)
print(json.dumps({**found, "code of the JVM": java.returncode}))
"""
SHOP = """
from tidegate import App, TableTopic, Topic

app = App("shop")
app.stream(Topic("lines", str, partitions=1)).count("counted").to(TableTopic("counts", int))
"""


def facts_of(program: str, folder: Path, **environment: str) -> dict[str, Any]:
    """Run a program in a process of its own. Returns what its last line holds."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
    command, env = [sys.executable, "-c", program], {**clean, **environment}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_workers_import_the_installed_pyspark_and_slots_need_no_session(tmp_path: Path) -> None:
    import pyspark

    from tidegate import Topic, connect

    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "user").mkdir()
    with connect("sqlite:///.tidegate/log.db", folder=tmp_path) as log:
        log.send(Topic("lines", str, partitions=1), "ada", "a")
    found = facts_of(PROGRAM, tmp_path, SHOP=str(tmp_path / "user"))
    assert found == {
        "pyspark": pyspark.__file__,
        "ends with zip files": True,
        "daemon": "tidegate_daemon",
        "threads of the daemon": 1,
        "the user's path": True,
        "session after a run": False,
        "rows": 3,
        "session after a query": True,
    }


@pytest.mark.slow
def test_a_stopped_session_stays_stopped_and_a_jvm_that_hangs_is_killed(tmp_path: Path) -> None:
    assert facts_of(STOPPED, tmp_path) == {"stays stopped": True, "code of the JVM": -signal.SIGKILL}


def test_a_process_that_uses_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    with pytest.raises(ConfigError, match="spark-connect"):
        start_session("shop", {})


def test_zip_files_go_behind_the_installation_that_they_belong_to(tmp_path: Path) -> None:
    site, work = str(tmp_path / "site"), str(tmp_path / "work")
    zips = [f"{site}/pyspark/python/lib/{name}" for name in ("pyspark.zip", "py4j-0.10-src.zip")]
    assert prefer_installed([work, *zips, site]) == [work, site, *zips]


def test_another_spark_keeps_its_zip_files_in_front(tmp_path: Path) -> None:
    site, spark = str(tmp_path / "site"), str(tmp_path / "spark-4.3")
    path = [f"{spark}/python/lib/pyspark.zip", f"{spark}/pyspark/python/lib/pyspark.zip", site, "app.zip"]
    assert prefer_installed(path) == path


def test_a_link_to_an_installation_is_the_installation(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib64").symlink_to("lib")
    zipped = str(tmp_path / "lib64/pyspark/python/lib/pyspark.zip")
    assert prefer_installed([zipped, str(tmp_path / "lib")]) == [str(tmp_path / "lib"), zipped]


def test_a_daemon_and_a_path_of_the_user_stay() -> None:
    assert daemon_conf({"spark.python.daemon.module": "mine"}) == {}
    path = "spark.executorEnv.PYTHONPATH"
    assert daemon_conf({})[path] == str(FOLDER)
    assert daemon_conf({path: "/mine"})[path] == f"{FOLDER}:/mine"
