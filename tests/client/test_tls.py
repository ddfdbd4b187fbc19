"""Over https the certificate of the server is checked."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest
from tests.client.followers import follow
from tests.models.app import EVENTS, Started, workflows
from tests.server.conftest import served

from tidegate.config.config import load_config
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A real server with a certificate that signs itself."""
    if which("openssl") is None:
        pytest.skip("needs openssl, to make a certificate. Do: sudo apt-get install openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    named = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run(
        [*made, *named, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    config = load_config({"log": "sqlite:///log.db"}, environ={}, folder=tmp_path)
    log = SqliteLog(tmp_path / "log.db")
    with Driver(workflows(), partitions=1, log=log) as d:
        d.send(EVENTS, "w/1", Started("Ship"))
        d.run()
        with served(config, certificate=str(certificate), private_key=str(key)) as found:
            yield found
    log.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_certificate_is_needed_that_is_known_here(
    kind: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert url.startswith("https://")
    with pytest.raises(ssl.SSLCertVerificationError):
        follow(kind, url, 1, model="workflows")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
    found = follow(kind, url, 1, model="workflows")
    assert found.states == [{"title": "Ship", "steps": {}}]
