from hashlib import sha256
from pathlib import Path

import pytest

from graphut.experiments.tasks.files import DataSet, digest_of
from tests.helpers import refuses

DATA = DataSet(
    "from https://example.org: name that folder",
    {"a/train.txt": sha256(b"one\n").hexdigest(), "test.txt": sha256(b"two\n").hexdigest()},
)


def test_data_set_read_names_a_missing_and_a_damaged_file(tmp_path: Path) -> None:
    message = rf"there is no {tmp_path}/test\.txt; get the data from https://example.org"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "train.txt").write_bytes(b"one\n")
    assert DATA.read(tmp_path, "a/train.txt") == "one\n"
    with pytest.raises(FileNotFoundError, match=message):
        DATA.read(tmp_path, "test.txt")
    (tmp_path / "test.txt").write_bytes(b"tvo\n")
    refuses(rf"{tmp_path}/test\.txt is damaged: .* from https://", DATA.read, tmp_path, "test.txt")


def test_data_set_read_takes_a_file_without_a_known_checksum_as_it_is(tmp_path: Path) -> None:
    data = DataSet("from nowhere", {"text": None})
    (tmp_path / "text").write_bytes("ä\n".encode())
    assert data.read(tmp_path, "text") == "ä\n"
    (tmp_path / "text").write_bytes(b"\xff")
    refuses(rf"{tmp_path}/text is not a text file in UTF-8", data.read, tmp_path, "text")


def test_digest_of_a_folder_is_of_the_texts_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.txt").write_text("one")
    before = digest_of(tmp_path)
    (tmp_path / "cover.jpg").write_bytes(b"\xff")
    assert digest_of(tmp_path) == before == digest_of(tmp_path / "a" / "one.txt")
    (tmp_path / "two.txt").write_text("two")
    assert digest_of(tmp_path) != before
