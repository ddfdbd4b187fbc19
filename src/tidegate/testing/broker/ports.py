"""Free loopback ports that stay free while a broker is down.

They are below the range that the system assigns to clients: otherwise an outgoing connection could take the
port of a killed broker before it is restarted.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
_LOWEST = 10_000
_CLIENT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Return this many different ports without a listener."""
    highest = int(_CLIENT_RANGE.read_text().split()[0]) if _CLIENT_RANGE.exists() else 32_768
    found: list[int] = []
    for port in random.SystemRandom().sample(range(_LOWEST, highest), highest - _LOWEST):
        if len(found) == count:
            break
        if is_free(port):
            found.append(port)
    return found


def is_free(port: int) -> bool:
    """Whether a listener could be bound to the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def answers(port: int) -> bool:
    """Return whether a server accepts connections on the port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True
