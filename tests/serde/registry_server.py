"""A schema registry of the suite: a small HTTP server that speaks the part of Confluent's API that we use.

It stands in for a real one in the quick tests, since it can be stopped, started again, made to fail and
asked what it was asked. `test_real_registry.py` runs the same story against Apicurio Registry, so that it
does not lie.

Compatibility is judged as BACKWARD, for Avro records only: a field that the version before does not have
needs a default, and a field of both must keep its type.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

Answer = tuple[int, Any]


class RegistryServer:
    """`with RegistryServer() as server:` on loopback; `stop` and `start` keep port and schemas."""

    def __init__(self, login: str | None = None) -> None:
        self.login = login
        self.requests: list[str] = []
        self.answers: list[Answer] = []
        """What the next requests get, whatever they ask for."""
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self._port = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def settings(self) -> dict[str, Any]:
        login = {"basic.auth.user.info": self.login} if self.login else {}
        return {"url": f"http://127.0.0.1:{self._port}", "max.retries": 0, **login}

    def start(self) -> None:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by its base
                """Not to stderr."""

            def do_GET(self) -> None:
                owner._handle(self, None)

            def do_POST(self) -> None:
                owner._handle(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> RegistryServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _handle(self, request: BaseHTTPRequestHandler, body: Any) -> None:
        self.requests.append(f"{request.command} {request.path.partition('?')[0]}")
        status, content = self.answers.pop(0) if self.answers else self._answer(request, body)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def _answer(self, request: BaseHTTPRequestHandler, body: Any) -> Answer:
        if self.login and request.headers["Authorization"] != _basic(self.login):
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        path = request.path.partition("?")[0]
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            schema = self.schemas.get(int(found[1]))
            return (200, schema) if schema else _missing(40403, "Schema not found")
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/(latest|\d+)", path):
            return self._version(unquote(found[1]), found[2])
        if found := re.fullmatch(r"/subjects/([^/]+)(/versions)?", path):
            return self._post(unquote(found[1]), body, register=found[2] is not None)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _version(self, subject: str, version: str) -> Answer:
        ids = self.subjects.get(subject)
        if not ids:
            return _missing(40401, f"Subject '{subject}' not found.")
        number = len(ids) if version == "latest" else int(version)
        if not 1 <= number <= len(ids):
            return _missing(40402, "Version not found.")
        return 200, self._described(subject, ids[number - 1])

    def _post(self, subject: str, body: Any, *, register: bool) -> Answer:
        schema = {"schema": body["schema"], "schemaType": body.get("schemaType", "AVRO")}
        if body.get("references"):
            schema["references"] = body["references"]
        ids = self.subjects.get(subject, [])
        known = next((number for number in ids if _same(self.schemas[number], schema)), None)
        if known is not None:
            return 200, self._described(subject, known)
        if not register:
            return _missing(40403 if ids else 40401, "Schema not found")
        if ids and (why := _breaks(self.schemas[ids[-1]], schema)):
            return 409, {"error_code": 409, "message": f"Schema being registered is incompatible: {why}"}
        number = self.add(subject, **schema)
        return 200, self._described(subject, number)

    def add(self, subject: str, schema: str, schemaType: str = "AVRO", **more: Any) -> int:  # noqa: N803
        """Register a schema, without a look at its compatibility."""
        content = {"schema": schema, "schemaType": schemaType, **more}
        number = next((one for one, known in self.schemas.items() if _same(known, content)), 0)
        number = number or len(self.schemas) + 1
        self.schemas[number] = content
        self.subjects.setdefault(subject, []).append(number)
        return number

    def _described(self, subject: str, number: int) -> dict[str, Any]:
        version = self.subjects[subject].index(number) + 1
        return {"subject": subject, "id": number, "version": version, **self.schemas[number]}


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(json.loads(one["schema"]) == json.loads(other["schema"])) and (
        one["schemaType"] == other["schemaType"]
    )


def _breaks(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Why a reader with the new schema cannot read what the old one wrote."""
    if before["schemaType"] != after["schemaType"]:
        return "another format"
    old, new = json.loads(before["schema"]), json.loads(after["schema"])
    if before["schemaType"] != "AVRO" or not isinstance(old, dict) or not isinstance(new, dict):
        return ""
    fields = {field["name"]: field["type"] for field in old.get("fields", ())}
    for field in new.get("fields", ()):
        if field["name"] not in fields and "default" not in field:
            return f"READER_FIELD_MISSING_DEFAULT_VALUE {field['name']}"
        if field["name"] in fields and fields[field["name"]] != field["type"]:
            return f"TYPE_MISMATCH {field['name']}"
    return ""


def _missing(code: int, message: str) -> Answer:
    return 404, {"error_code": code, "message": message}


def _basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"
