"""A stand-in for the Hugging Face hub: a server on this machine that keeps what it is given."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

Files = dict[str, bytes]


class Hub(ThreadingHTTPServer):
    """Repositories by name, with the files of each commit, the newest commit last."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.commits: dict[str, list[tuple[str, Files]]] = {}
        self.made: list[dict[str, Any]] = []  # what was asked for with each new repository
        self.messages: list[str] = []  # of commits
        self.downloads: list[str] = []  # names of files
        self.refuses = False  # whether to upload it takes a token

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def files(self, repository: str, revision: str = "main") -> tuple[str, Files]:
        """The commit of a revision and its files."""
        commits = self.commits[repository]
        return commits[-1] if revision == "main" else (revision, dict(commits)[revision])

    def commit(self, repository: str, **files: bytes) -> str:
        """Add files to those of the newest commit, and return the name of the new one."""
        files = {**(self.files(repository)[1] if self.commits.get(repository) else {}), **files}
        name = sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits.setdefault(repository, []).append((name, files))
        return name


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        parts = self._parts()
        if self.server.refuses and parts[:2] != ["api", "validate-yaml"]:
            self._answer({"error": "Invalid username or password."}, status=401)
        elif parts == ["api", "repos", "create"]:
            asked = json.loads(data)
            name = f"{asked['organization']}/{asked['name']}"
            known = name in self.server.commits
            if not known:
                self.server.made.append(asked)
                self.server.commits[name] = [("0" * 40, {})]
            address = {"url": f"{self.server.address}/{name}"}
            self._answer(address, status=409 if known else 200)
        elif parts == ["api", "validate-yaml"]:
            self._answer({"errors": [], "warnings": []})
        elif parts[4] == "preupload":
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(data)["files"]
            ]
            self._answer({"files": files})
        else:
            header, *rest = (json.loads(line)["value"] for line in data.splitlines())
            repository = "/".join(parts[2:4])
            files = {file["path"]: b64decode(file["content"]) for file in rest}
            name = self.server.commit(repository, **files)
            self.server.messages.append(header["summary"])
            self._answer({"commitUrl": f"{self.server.address}/{repository}", "commitOid": name})

    def do_GET(self) -> None:
        parts = self._parts()
        api = parts[:2] == ["api", "models"]
        repository = "/".join(parts[2:4] if api else parts[:2])
        kind, *rest = parts[4 if api else 2 :] or ["revision", "main"]
        if repository not in self.server.commits:
            self._answer({}, status=404, **{"X-Error-Code": "RepoNotFound"})
            return
        try:
            name, files = self.server.files(repository, rest[0])
        except KeyError:
            self._answer({}, status=404, **{"X-Error-Code": "RevisionNotFound"})
            return
        if kind == "revision":
            self._answer({"id": repository, "sha": name, "siblings": []})
        elif kind == "tree":
            kinds = {"type": "file"}
            self._answer(
                [
                    {**kinds, "path": path, "size": len(data), "oid": sha1(data).hexdigest()}
                    for path, data in files.items()
                ]
            )
        elif rest[1] not in files:
            self._answer({}, status=404, **{"X-Error-Code": "EntryNotFound"})
        else:
            data = files[rest[1]]
            if self.command == "GET":
                self.server.downloads.append(rest[1])
            self._answer(data, **{"X-Repo-Commit": name, "ETag": f'"{sha1(data).hexdigest()}"'})

    def do_HEAD(self) -> None:
        self.do_GET()

    def _parts(self) -> list[str]:
        return urlsplit(self.path).path.strip("/").split("/")

    def _answer(self, value: Any, *, status: int = 200, **headers: str) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


@contextmanager
def running_hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Let `huggingface_hub` ask a hub on this machine, and keep what it downloads in a folder."""
    constants = pytest.importorskip("huggingface_hub.constants")
    with Hub() as hub:
        for name, value in {
            "ENDPOINT": hub.address,
            "HUGGINGFACE_CO_URL_TEMPLATE": hub.address + "/{repo_id}/resolve/{revision}/{filename}",
            "HF_HUB_CACHE": str(cache),
            "HF_HUB_DISABLE_XET": True,
            "HF_HUB_OFFLINE": False,
        }.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
        monkeypatch.setenv("HF_TOKEN", "stand-in")
        thread = Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()
