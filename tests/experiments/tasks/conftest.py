import tarfile
from pathlib import Path
from typing import Any

import pytest


def unpacked(archive: str, content: str) -> Any:
    """Make a fixture that unpacks an archive of the shared data and returns a path in it."""

    @pytest.fixture(scope="session")
    def path(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("unpacked")
        with tarfile.open(shared_data / archive) as members:
            # Python 3.11.3 and older have no filters.
            members.extraction_filter = getattr(tarfile, "data_filter", None)
            members.extractall(folder)
        return folder / content

    return path


scan_folder = unpacked("scan/scan.tar.xz", "SCAN")
listops_folder = unpacked("listops/listops-official-tests.tar.xz", "listops")
multi30k_folder = unpacked("multi30k/multi30k-task1-en-de.tar.xz", "multi30k-task1")
wmt14_folder = unpacked("wmt14/wmt14-en-de-small.tar.xz", "wmt14-en-de-small")
babi_folder = unpacked("babi/babi-tasks-v1-2-en.tar.xz", "tasks_1-20_v1-2")
babi_10k_folder = unpacked(
    "babi/babi-tasks-v1-2-en-10k-without-qa3-train.tar.xz", "tasks_1-20_v1-2"
)
lambada_folder = unpacked("lambada/lambada-dev-test.tar.xz", "lambada")
agreement_folder = unpacked(
    "agreement/linzen-rnn_agr_simple-val-and-attractor-tests.tar.xz", "rnn_agr_simple"
)
sentences_folder = unpacked("agreement/linzen-wiki-small-dev-test.tar.xz", "linzen-wiki-small")
shakespeare = unpacked("text/tinyshakespeare.tar.xz", "tinyshakespeare/input.txt")
