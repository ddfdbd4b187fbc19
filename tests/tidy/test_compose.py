"""compose.yaml fits together, as far as that shows without Docker: its parts name each other rightly, the
settings inside are accepted, and a real Kafka accepts the broker's. With Docker its own check runs too."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pyspark
import pytest
from tests.tidy.test_tree import ROOT

from tidegate import App, Topic
from tidegate.cli.main import app as commands
from tidegate.config.config import Config, load_config
from tidegate.load import load_app
from tidegate.log.location import LogLocation
from tidegate.log.open import kafka_servers
from tidegate.testing.broker.config import text
from tidegate.testing.broker.jars import POM
from tidegate.testing.broker.tool import run_tool
from tidegate.testing.broker.tools import java

pytestmark = pytest.mark.slow

FILE = ROOT / "compose.yaml"
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
PAGES = FILE.read_text() + (ROOT / "docs" / "kafka.md").read_text() + (ROOT / "README.md").read_text()
BUILT = "tidegate:local"


@pytest.fixture(scope="module")
def stack() -> dict[str, Any]:
    """The file, read by a real parser."""
    jars = Path(pyspark.__file__).parent / "jars"
    parser = [str(jar) for kind in ("snakeyaml-2*", "jackson-*") for jar in jars.glob(f"{kind}.jar")]
    program = Path(__file__).with_name("YamlToJson.java")
    command = [java(), "-XX:TieredStopAtLevel=1", "-cp", ":".join(parser), str(program)]
    ran = subprocess.run([*command, str(FILE)], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config(environ={}, folder=ROOT / "deploy")


def broker_settings(stack: dict[str, Any]) -> dict[str, str]:
    """As the image turns variables into properties."""
    variables = stack["services"]["kafka"]["environment"]
    return {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in variables.items()
        if name.startswith("KAFKA_")
    }


def test_its_parts_are_there(stack: dict[str, Any]) -> None:
    services = stack["services"]
    assert set(services) == {"kafka", "postgres", "spark-master", "spark-worker", "topics", "tidegate"}
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= set(services), name
        awaited = service.get("depends_on", {})
        if isinstance(awaited, dict):
            healthy = [one for one, how in awaited.items() if how["condition"] == "service_healthy"]
            assert all("healthcheck" in services[one] for one in healthy), name
        mounted = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert mounted <= set(stack["volumes"]), name
        assert all(isinstance(value, str) for value in service.get("environment", {}).values()), name


def test_images_are_pinned(stack: dict[str, Any]) -> None:
    for service in stack["services"].values():
        if service["image"] == BUILT:
            assert service["build"] == {"context": ".", "dockerfile": "deploy/Dockerfile"}
        else:
            assert re.fullmatch(r"[a-z/]+:\d+(\.\d+)+", service["image"])
    assert re.search(r"^FROM python:3\.\d+\.\d+-slim-[a-z]+$", DOCKERFILE, re.MULTILINE)
    version = re.search("<kafka.version>(.*?)<", POM.read_text())
    assert version is not None
    assert stack["services"]["kafka"]["image"] == f"apache/kafka:{version[1]}", "what the tests run on"


def test_nothing_listens_beyond_this_machine(stack: dict[str, Any]) -> None:
    ports = [port for service in stack["services"].values() for port in service.get("ports", ())]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_settings_inside_name_the_services(stack: dict[str, Any], config: Config) -> None:
    services, settings = stack["services"], broker_settings(stack)
    advertised = dict(one.split("://") for one in settings["advertised.listeners"].split(","))
    assert kafka_servers(LogLocation.of(config).url) == advertised["INSIDE"]
    assert advertised["INSIDE"].startswith("kafka:")
    assert advertised["INSIDE"] in services["kafka"]["healthcheck"]["test"]
    host, port = advertised["OUTSIDE"].split(":")
    assert (host, f"127.0.0.1:{port}:{port}") == ("localhost", services["kafka"]["ports"][0])
    assert f"kafka://{advertised['OUTSIDE']}" in PAGES
    command = services["spark-master"]["command"]
    master = f"spark://{command[command.index('--host') + 1]}:{command[command.index('--port') + 1]}"
    assert master == "spark://spark-master:7077"
    assert [config.spark["master"], services["spark-worker"]["command"][-1]] == [master, master]
    assert config.spark["conf"]["spark.driver.host"] in services
    worker = services["spark-worker"]
    assert worker["environment"]["TIDEGATE_STATE_DIR"] == config.state_dir
    assert f"state:{config.state_dir}" in worker["volumes"]
    work = worker["command"][worker["command"].index("--work-dir") + 1]
    assert f"mkdir -p {config.state_dir} {work}" in DOCKERFILE


def test_the_app_inside_is_the_example(
    stack: dict[str, Any], config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "wordcount"))
    app = load_app(str(config.app))
    assert isinstance(app, App)
    sources = {node.topic.name for node in app.build().nodes.values() if isinstance(node.topic, Topic)}
    assert {stack["services"]["topics"]["command"][-1]} == sources
    for name in ("topics", "tidegate"):
        program, verb, *_ = stack["services"][name]["command"]
        known = {one.name for one in commands.registered_commands}
        known |= {one.name for one in commands.registered_groups}
        assert program == "tidegate"
        assert verb in known


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    ignore = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().split()
    lines = re.findall(r"^COPY (.*) \S+$", DOCKERFILE, re.MULTILINE)
    copied = [name for line in lines for name in line.split()]
    assert len(copied) >= 6
    assert ignore[0] == "*"
    assert {name for name in copied if not (ROOT / name).exists() or f"!{name}" not in ignore} == set()


def test_the_image_has_what_the_wheel_takes_from_elsewhere_before_it_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    forced = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    before = DOCKERFILE[: DOCKERFILE.index("--no-build-isolation .")]
    assert [name for name in forced if f"COPY {name} {name}\n" not in before] == []


@pytest.mark.usefixtures("kafka_jars")
def test_a_real_kafka_accepts_the_brokers_settings(stack: dict[str, Any], tmp_path: Path) -> None:
    settings = broker_settings(stack) | {"log.dirs": str(tmp_path / "data")}
    (tmp_path / "server.properties").write_text(text(settings))
    cluster = ["-t", "dGlkZWdhdGUtdGVzdHMtMQ", "-c", str(tmp_path / "server.properties")]
    run_tool("kafka.tools.StorageTool", "format", *cluster)
    assert (tmp_path / "data" / "meta.properties").exists()


def test_docker_accepts_the_file() -> None:
    docker = shutil.which("docker") or ""
    version = [docker, "compose", "version"]
    if not docker or subprocess.run(version, capture_output=True, check=False).returncode:
        pytest.skip("needs Docker Compose, which is not installed")
    command = [docker, "compose", "--file", str(FILE), "config", "--quiet"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
