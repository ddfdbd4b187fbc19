"""The section `[server]` of tidegate.toml."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from tidegate.errors import ConfigError

Text = Annotated[str, msgspec.Meta(min_length=1)]


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a server listens, and who may call it."""

    host: Text = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8470
    """0: any free port."""
    tokens: Text | None = None
    """The file of tokens; without one the server must listen on loopback."""
    hosts: list[Text] = []
    """Host names of the server, in addition to those of this machine."""
    origins: list[Text] = []
    """Origins whose pages may call it from a browser."""
    certificate: Text | None = None
    private_key: Text | None = None
    streams: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 64
    streams_per_client: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 16
    model_streams: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 5_000

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def server_settings(section: Mapping[str, Any], given: Mapping[str, Any]) -> ServerSettings:
    """The section, overridden by options of the command line. A server that other machines can reach needs
    tokens."""
    values = {**section, **{name: value for name, value in given.items() if value is not None}}
    try:
        settings = msgspec.convert(values, ServerSettings, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(ServerSettings.__struct_fields__)
        raise ConfigError("bad-setting", f"[server]: {error}", f"known are: {known}") from None
    if not settings.on_loopback and settings.tokens is None:
        raise ConfigError(
            "needs-tokens",
            f"{settings.host} can be reached by other machines, and no tokens are set",
            "tidegate tokens add NAME, and set tokens; or listen on 127.0.0.1",
        )
    if (settings.certificate is None) != (settings.private_key is None):
        raise ConfigError(
            "bad-setting", "[server]: only one of certificate and private_key is set", "set both"
        )
    return settings
