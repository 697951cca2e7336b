from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from tests.conftest import DATA


def unpack(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as members:
        # Python 3.11.3 and older have no filters.
        members.extraction_filter = getattr(tarfile, "data_filter", None)
        members.extractall(folder)
    return folder


@pytest.fixture(scope="session")
def scan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(DATA / "scan" / "scan.tar.xz", tmp_path_factory.mktemp("scan")) / "SCAN"


@pytest.fixture(scope="session")
def listops_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = DATA / "listops" / "listops-official-tests.tar.xz"
    return unpack(archive, tmp_path_factory.mktemp("listops")) / "listops"


@pytest.fixture(scope="session")
def multi30k_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = DATA / "multi30k" / "multi30k-task1-en-de.tar.xz"
    return unpack(archive, tmp_path_factory.mktemp("multi30k")) / "multi30k-task1"


@pytest.fixture(scope="session")
def wmt14_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = DATA / "wmt14" / "wmt14-en-de-small.tar.xz"
    return unpack(archive, tmp_path_factory.mktemp("wmt14")) / "wmt14-en-de-small"


@pytest.fixture(scope="session")
def babi_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = DATA / "babi" / "babi-tasks-v1-2-en.tar.xz"
    return unpack(archive, tmp_path_factory.mktemp("babi")) / "tasks_1-20_v1-2"


@pytest.fixture(scope="session")
def babi_10k_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = DATA / "babi" / "babi-tasks-v1-2-en-10k-without-qa3-train.tar.xz"
    return unpack(archive, tmp_path_factory.mktemp("babi10k")) / "tasks_1-20_v1-2"


@pytest.fixture(scope="session")
def lambada_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = DATA / "lambada" / "lambada-dev-test.tar.xz"
    return unpack(archive, tmp_path_factory.mktemp("lambada")) / "lambada"


@pytest.fixture(scope="session")
def agreement_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = DATA / "agreement" / "linzen-rnn_agr_simple-val-and-attractor-tests.tar.xz"
    return unpack(archive, tmp_path_factory.mktemp("agreement")) / "rnn_agr_simple"


@pytest.fixture(scope="session")
def sentences_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = DATA / "agreement" / "linzen-wiki-small-dev-test.tar.xz"
    return unpack(archive, tmp_path_factory.mktemp("sentences")) / "linzen-wiki-small"


@pytest.fixture(scope="session")
def shakespeare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    archive = DATA / "text" / "tinyshakespeare.tar.xz"
    return unpack(archive, tmp_path_factory.mktemp("text")) / "tinyshakespeare" / "input.txt"
