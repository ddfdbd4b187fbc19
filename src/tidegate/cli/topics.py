"""`tidegate topics`: create, list, describe, write, read and compact topics."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidegate.cli import send, tail
from tidegate.cli.options import AsJson, LogUrl, opened
from tidegate.cli.output import print_json, print_line, print_table
from tidegate.errors import ConfigError, LogError
from tidegate.log.ensure import check_topic, ensure_topic, find_topic
from tidegate.log.names import check_name, of_preview
from tidegate.log.protocol import Log
from tidegate.log.route import partitions_of
from tidegate.log.topic import TopicInfo, TopicSpec
from tidegate.text.render import printable
from tidegate.types import TopicPartition

app = typer.Typer(help="Topics of the log.", no_args_is_help=True)
app.command("send")(send.send)
app.command("tail")(tail.tail)
app.command("rows")(tail.rows)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]


@app.command()
def create(
    name: Name,
    partitions: Annotated[
        int | None, typer.Option("--partitions", help="How many; default: `partitions` of tidegate.toml.")
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="Rows, one per key, in place of events.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="By Kafka's own names.")
    ] = None,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Create a topic, unless it exists with the same settings."""
    config = _pairs(settings or [])
    check_name("topic", name)
    TopicSpec(name, 1 if partitions is None else partitions, config)  # before a file is created for it
    with opened(log, create=True) as (opened_log, defaults):
        before = find_topic(opened_log, name)
        if before is not None:
            _check_same_config(before, config)
        info = ensure_topic(
            opened_log, name, table=table, partitions=partitions, default=defaults.partitions, config=config
        )
        if as_json:
            print_json({"created": before is None, **_described(opened_log, info)})
        else:
            verb, count = "created" if before is None else "already exists:", _count(info)
            print_line(f"{verb} {_kind(info)} ", (info.name, "bold"), f" with {count}")


@app.command("list")
def list_topics(log: LogUrl = None, as_json: AsJson = False) -> None:
    """List the topics."""
    with opened(log) as (opened_log, _):
        shown = [name for name in opened_log.names() if not of_preview(name)]
        infos = [opened_log.describe(name) for name in shown]
        if as_json:
            print_json({"topics": [_described(opened_log, info) for info in infos]})
        elif not infos:
            print_line("no topics yet.  Do: tidegate topics create NAME")
        else:
            rows = (_row(opened_log, info) for info in infos)
            print_table(rows, ("topic", "kind", "partitions", "offsets"))


@app.command()
def describe(name: Name, log: LogUrl = None, as_json: AsJson = False) -> None:
    """Describe a topic: partitions, offsets and settings."""
    with opened(log) as (opened_log, _):
        info = opened_log.describe(name)
        found = _described(opened_log, info)
    if as_json:
        print_json(found)
        return
    print_line((info.name, "bold"), f"  {_kind(info)}, {_count(info)}")
    config = [f"{key} = {printable(value)}" for key, value in sorted(info.config.items())]
    about = [
        ("id", info.uid),
        ("cleanup.policy", info.policy),
        ("config", "\n".join(config) or "-"),
        ("history cut", "yes: some partition does not start at 0" if info.history_cut else "no"),
    ]
    print_table(about)
    offsets = [(str(p["partition"]), f"{p['start']:,}", f"{p['end']:,}") for p in found["offsets"]]
    print_table(offsets, ("partition", "start", "end"))


@app.command()
def compact(name: Name, log: LogUrl = None, as_json: AsJson = False) -> None:
    """Compact a table topic to its end now: only the newest record of each key stays."""
    with opened(log) as (opened_log, _):
        check_topic(opened_log.describe(name), table=True)
        run = getattr(opened_log, "compact", None)
        if run is None:
            raise LogError(
                "not-supported",
                "a Kafka broker decides itself when it compacts a topic",
                "wait until it does",
            )
        run(name)
    if as_json:
        print_json({"topic": name, "compacted": True})
    else:
        print_line("compacted ", (name, "bold"))


def _described(log: Log, info: TopicInfo) -> dict[str, Any]:
    ends = log.ends(partitions_of(info))
    return {
        "topic": info.name,
        "id": info.uid,
        "kind": "table" if info.compacts else "events",
        "partitions": info.partitions,
        "policy": info.policy,
        "config": dict(info.config),
        "history_cut": info.history_cut,
        "offsets": [
            {"partition": number, "start": start, "end": ends[TopicPartition(info.name, number)]}
            for number, start in enumerate(info.starts)
        ],
    }


def _row(log: Log, info: TopicInfo) -> tuple[str, ...]:
    written = sum(log.ends(partitions_of(info)).values()) - sum(info.starts)
    return info.name, "table" if info.compacts else "events", str(info.partitions), f"{written:,}"


def _kind(info: TopicInfo) -> str:
    return "table" if info.compacts else "topic of events"


def _count(info: TopicInfo) -> str:
    return "1 partition" if info.partitions == 1 else f"{info.partitions:,} partitions"


def _pairs(settings: list[str]) -> dict[str, str]:
    config: dict[str, str] = {}
    for setting in settings:
        key, found, value = setting.partition("=")
        if not found or not key:
            raise ConfigError(
                "bad-topic-config",
                f"--config {setting!r} is not KEY=VALUE",
                "as in retention.ms=3600000",
            )
        config[key] = value
    return config


def _check_same_config(info: TopicInfo, requested: dict[str, str]) -> None:
    other = {key: value for key, value in requested.items() if info.config.get(key) != value}
    if other:
        existing = ", ".join(f"{key} = {info.config.get(key, 'its default')}" for key in sorted(other))
        raise LogError(
            "other-config",
            f"topic {info.name!r} exists with {existing}",
            "leave --config out, or use another name: the config of an existing topic cannot be changed here",
        )
