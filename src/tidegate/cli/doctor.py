"""`tidegate doctor`: check what a run needs."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate.cli.doctor_embedded import EMBEDDED_CHECKS
from tidegate.cli.doctor_kafka import KAFKA_CHECKS, NotChecked
from tidegate.cli.doctor_sinks import sink_checks
from tidegate.cli.options import AsJson, LogUrl
from tidegate.cli.output import print_json, print_line
from tidegate.config.config import Config, load_config
from tidegate.config.spark import spark_settings
from tidegate.errors import ConfigError, TidegateError
from tidegate.log.location import LogLocation
from tidegate.log.open import kafka_servers, open_log

FREE_BYTES = 1 << 30
Check = Callable[[Config], str]


def doctor(log: LogUrl = None, json: AsJson = False) -> None:
    """Check Java, Spark, the log, the disk and the settings. Exit code 1 if something is wrong."""
    config = load_config({"log": log})
    results = [_result(name, check, config) for name, check in CHECKS.items()]
    if results[-1]["ok"]:
        more = EMBEDDED_CHECKS if kafka_servers(config.log) is None else KAFKA_CHECKS
        results += [_result(name, check, config) for name, check in more.items()]
    results += [_result(name, check, config) for name, check in sink_checks(config).items()]
    if json:
        print_json({"checks": results})
    else:
        for one in results:
            print_line(_mark(one), f"{one['name']}: {one['found']}")
            if one["ok"] is False:
                print_line(f"        Do: {one['hint']}")
    wrong = [one["name"] for one in results if one["ok"] is False]
    if wrong:
        raise ConfigError("not-ready", f"not ready: {', '.join(wrong)}", "follow the hints above")


def _result(name: str, check: Check, config: Config) -> dict[str, Any]:
    """Run one check. `ok` is None if it could not run; `code` is that of the error, if there is one."""
    try:
        return {"name": name, "ok": True, "found": check(config), "hint": ""}
    except NotChecked as why:
        return {"name": name, "ok": None, "found": f"not checked: {why}", "hint": ""}
    except TidegateError as error:
        return {"name": name, "ok": False, "found": error.message, "hint": error.hint, "code": error.code}


def _mark(result: dict[str, Any]) -> tuple[str, str]:
    if result["ok"] is None:
        return "  --  ", "dim"
    return ("  ok  ", "bold green") if result["ok"] else ("  NO  ", "bold red")


def _java(_: Config) -> str:
    return f"version {_session().java_version()}"


def _spark(_: Config) -> str:
    _session()
    from importlib.metadata import version

    return f"pyspark {version('pyspark')}"


def _settings(config: Config) -> str:
    given = spark_settings(config.spark)
    conf = given.conf
    if conf.get("spark.speculation", "false").lower() == "true":
        raise ConfigError(
            "speculation",
            "spark.speculation is on",
            "set it to false: two attempts of a slot must not run at once",
        )
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        idle = conf.get("spark.dynamicAllocation.executorIdleTimeout", "60s")
        return (
            f"dynamic allocation is on (idle after {idle}): a quiet slot keeps its executor busy, so it stays"
        )
    return f"master {given.master}"


def _memory(config: Config) -> str:
    limit = spark_settings(config.spark).conf.get("spark.executor.pyspark.memory")
    if limit:
        raise ConfigError(
            "address-space",
            f"spark.executor.pyspark.memory = {limit} limits the address space, and stores map their files",
            "remove it, or set it to several times the size of the state",
        )
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return "no limit on address space" if soft == resource.RLIM_INFINITY else f"address space {soft:,} bytes"


def _disk(config: Config) -> str:
    folder = Path(config.folder) / config.state_dir
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        raise ConfigError("no-permission", f"{existing} cannot be written", "check its owner and mode")
    free = shutil.disk_usage(existing).free
    if free < FREE_BYTES:
        raise ConfigError(
            "disk-full",
            f"{free >> 20} MiB free for state",
            "free some space, or set state_dir to another disk",
        )
    return f"{free >> 30} GiB free for state"


def _log(config: Config) -> str:
    try:
        log = open_log(LogLocation.of(config), create=False)
    except TidegateError as error:
        if error.code == "no-log":
            return "none yet: it is created by the first write"
        raise
    try:
        return f"{len(log.names())} topics"
    finally:
        log.close()


def _session() -> Any:
    try:
        from tidegate.spark import session
    except ImportError:
        raise ConfigError("no-pyspark", "Spark is not installed", "pip install tidegate[spark]") from None
    return session


CHECKS: dict[str, Check] = {
    "Java": _java,
    "Spark": _spark,
    "Spark's settings": _settings,
    "memory limits": _memory,
    "disk": _disk,
    "log": _log,  # the last one: if it is ok, checks of this kind of log follow
}
