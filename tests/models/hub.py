"""A stand-in for the client of the Hugging Face hub, with repositories in memory."""

from pathlib import Path
from unittest.mock import create_autospec

import pytest

Files = dict[str, bytes]


class Hub:
    """Repositories by name, with the files of each commit, the newest commit last."""

    address = "https://hub.example"

    def __init__(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace `HfApi` by a client that keeps its downloads in the folder `cache`."""
        library = pytest.importorskip("huggingface_hub")
        self.not_found = pytest.importorskip("huggingface_hub.errors").RepositoryNotFoundError
        self.cache = cache
        self.commits: dict[str, list[Files]] = {}
        self.made: list[bool | None] = []  # whether each new repository is private
        self.messages: list[str] = []  # of commits
        self.refuses = False  # whether an upload needs a token
        client = create_autospec(library.HfApi, instance=True)  # with the signatures of `HfApi`
        for name in ("create_repo", "file_exists", "upload_folder", "snapshot_download"):
            getattr(client, name).side_effect = getattr(self, f"_{name}")
        monkeypatch.setattr(library, "HfApi", lambda **_: client)

    def files(self, repository: str) -> Files:
        """The files of the newest commit."""
        return self.commits[repository][-1]

    def commit(self, repository: str, **files: bytes) -> None:
        """Add files to those of the newest commit."""
        commits = self.commits.setdefault(repository, [{}])
        commits.append(commits[-1] | files)

    def _create_repo(self, repo_id: str, *, private: bool | None, exist_ok: bool) -> str:
        if self.refuses:
            raise RuntimeError("401 Client Error")
        if repo_id not in self.commits:
            self.made.append(private)
            self.commits[repo_id] = [{}]
        return f"{self.address}/{repo_id}"

    def _file_exists(self, repo_id: str, filename: str) -> bool:
        return filename in self.files(repo_id)

    def _upload_folder(
        self, *, repo_id: str, folder_path: str, allow_patterns: list[str], commit_message: str
    ) -> None:
        self.messages.append(commit_message)
        found = {path for pattern in allow_patterns for path in Path(folder_path).glob(pattern)}
        self.commit(repo_id, **{path.name: path.read_bytes() for path in found})

    def _snapshot_download(
        self, repo_id: str, *, revision: str | None, allow_patterns: list[str]
    ) -> str:
        if repo_id not in self.commits:
            raise self.not_found.__new__(self.not_found)
        if revision is not None and not revision.isdecimal():
            raise RuntimeError("Revision Not Found")
        folder = self.cache / repo_id / (revision or "main")
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.commits[repo_id][int(revision or -1)].items():
            if name in allow_patterns:
                (folder / name).write_bytes(data)
        return str(folder)
