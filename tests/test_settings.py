"""Settings of an app: typed, from the file and the environment; secrets that never show."""

from __future__ import annotations

import dataclasses
import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from tidegate import App, ConfigError, Secret, Settings, TidegateError, Topic, operational
from tidegate.testing import Driver
from tidegate.topology.manifest import make_manifest

CANARY = "k3y-that-must-not-show"
LINES = Topic("lines", str)


class Config(Settings):
    min_cents: int = 0
    rate: float = 1.0
    mode: Literal["fast", "safe"] = "safe"
    loud: bool = False
    regions: dict[str, int] = dataclasses.field(default_factory=dict)
    timeout: int = operational(30)
    pager_key: Secret | None = operational(None)
    api_key: Secret | None = None


class Needs(Settings):
    limit: int
    token: Secret


class Nested(Settings):
    keys: list[Secret] = dataclasses.field(default_factory=list)


class Odd(Settings):
    share: Fraction = Fraction(1, 2)


def load(folder: Path, toml: str) -> Config:
    (folder / "tidegate.toml").write_text(toml)
    return Config.load(folder=folder)


# --- where values come from ---------------------------------------------------------------------------


def test_without_a_file_and_environment_the_defaults_hold(tmp_path: Path) -> None:
    assert Config.load(folder=tmp_path) == Config() == Config.of({})


def test_the_file_sets_values_by_their_types(tmp_path: Path) -> None:
    text = '[settings]\nmin_cents = 100\nrate = 0.5\nmode = "fast"\nloud = true\nregions = { north = 1 }\n'
    wanted = Config(min_cents=100, rate=0.5, mode="fast", loud=True, regions={"north": 1})
    assert load(tmp_path, text) == wanted


def test_the_environment_overrides_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_SETTINGS__MIN_CENTS", "250")
    monkeypatch.setenv("TIDEGATE_SETTINGS__LOUD", "true")
    monkeypatch.setenv("TIDEGATE_SETTINGS__REGIONS__NORTH", "7")
    monkeypatch.setenv("TIDEGATE_SETTINGS__PAGER_KEY", CANARY)
    config = load(tmp_path, "[settings]\nmin_cents = 100\nrate = 2\n")
    assert config == Config(
        min_cents=250, loud=True, rate=2.0, regions={"north": 7}, pager_key=Secret(CANARY)
    )


def test_the_working_folder_is_where_the_file_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tidegate.toml").write_text("[settings]\nmin_cents = 3\n")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert Config.load().min_cents == 3


def test_settings_never_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().min_cents = 5  # type: ignore[misc]


# --- what is wrong, by name ---------------------------------------------------------------------------


def test_an_unknown_setting_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Config has no setting 'min_cent'") as caught:
        load(tmp_path, "[settings]\nmin_cent = 100\n")
    assert caught.value.code == "unknown-setting"
    assert "min_cents" in caught.value.hint


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"min_cents": "many"}, "min_cents"),
        ({"min_cents": 1.5}, "min_cents"),
        ({"mode": "slow"}, "mode"),
        ({"loud": "perhaps"}, "loud"),
        ({"regions": {"north": "far"}}, "regions"),
        ({"api_key": 12345}, "api_key"),
        ({"api_key": {"text": CANARY}}, "api_key"),
    ],
)
def test_a_wrong_value_is_reported_by_name(values: dict[str, object], name: str) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        Config.of(values)
    assert caught.value.code == "bad-setting"
    assert caught.value.hint


def test_a_setting_without_default_must_be_given() -> None:
    with pytest.raises(ConfigError, match="missing required field `limit`"):
        Needs.of({"token": CANARY})
    assert Needs.of({"token": CANARY, "limit": 1}).token.reveal() == CANARY


def test_a_type_that_no_file_can_hold_is_reported_by_name() -> None:
    with pytest.raises(ConfigError, match=r"no setting can be a Fraction.*share"):
        Odd.of({"share": "1/2"})


# --- what recalculates --------------------------------------------------------------------------------


def app_with(config: Settings) -> App:
    app = App("app", config)
    app.stream(LINES).count("counts")
    return app


def test_the_manifest_holds_the_settings_that_recalculate_and_no_others() -> None:
    topology = app_with(Config(min_cents=5, timeout=60)).build()
    assert topology.settings == {
        "min_cents": 5,
        "rate": 1.0,
        "mode": "safe",
        "loud": False,
        "regions": {},
    }
    assert make_manifest(topology, {"lines": 1}).settings == topology.settings


@pytest.mark.parametrize(
    "changed", [Config(timeout=1), Config(pager_key=Secret("a")), Config(api_key=Secret("a"))]
)
def test_an_operational_setting_and_a_secret_may_change_without_a_new_generation(changed: Config) -> None:
    assert app_with(changed).build().settings == app_with(Config()).build().settings
    with Driver(app_with(Config())) as first:
        first.run()
        with Driver(app_with(changed), log=first.log, clock=first.clock) as second:
            second.run()


def test_another_setting_makes_another_app() -> None:
    with Driver(app_with(Config())) as first:
        first.run()
        with (
            Driver(app_with(Config(min_cents=1)), log=first.log, clock=first.clock) as second,
            pytest.raises(TidegateError, match='setting "min_cents" changed'),
        ):
            second.run()


def test_a_setting_that_cannot_be_written_down_is_reported_when_the_app_is_built() -> None:
    with pytest.raises(ConfigError, match=r"Odd\.share cannot be stored in the manifest.*Fraction"):
        app_with(Odd()).build()


def test_a_setting_of_a_rich_plain_type_is_written_down() -> None:
    class Rich(Settings):
        rate: Decimal = Decimal("1.5")

    assert Rich().counted() == {"rate": "1.5"}


# --- secrets ------------------------------------------------------------------------------------------


def test_a_secret_is_revealed_only_on_request() -> None:
    secret = Secret(CANARY)
    assert (secret.reveal(), repr(secret), str(secret), f"{secret}") == (CANARY, "***", "***", "***")
    assert secret == Secret(CANARY) != Secret("another")
    assert len({secret, Secret(CANARY)}) == 1
    assert pickle.loads(pickle.dumps(secret)) == secret  # noqa: S301 - our own bytes


def everything_shown() -> list[str]:
    """All that may reach a log, an error, a page or the control topic."""
    config = Config(pager_key=Secret(CANARY), api_key=Secret(CANARY))
    nested = Nested(keys=[Secret(CANARY)])
    shown = [repr(config), str(config), f"{config}", "%s" % (config,), repr(dataclasses.asdict(config))]  # noqa: UP031
    shown += [repr(config.counted()), repr(nested), repr(nested.counted())]
    for settings in (config, nested):
        topology = app_with(settings).build()
        shown.append(msgspec.json.encode(make_manifest(topology, {"lines": 1})).decode())
    cases: list[tuple[type[Settings], dict[str, object]]] = [
        (Config, {"api_key": CANARY, "min_cents": "many"}),
        (Config, {"api_key": [CANARY]}),
        (Config, {"api_key": CANARY, "unknown": 1}),
        (Needs, {"token": CANARY}),
    ]
    for kind, wrong in cases:
        with pytest.raises(ConfigError) as caught:
            kind.of(wrong)
        shown += [str(caught.value), repr(caught.value), repr(caught.value.as_dict())]
        shown += [repr(caught.value.__cause__)]
    return shown


def test_a_secret_never_shows() -> None:
    shown = everything_shown()
    assert [text for text in shown if CANARY in text] == []
    assert sum("***" in text for text in shown) >= 6
