from __future__ import annotations

from pathlib import Path

import pytest

from graphut.experiments.training.run_folder import RUN, check_is_run, is_run


def test_check_is_run_names_what_is_missing(tmp_path: Path) -> None:
    assert not is_run(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"there is no run in .*: it has no {RUN}"):
        check_is_run(tmp_path)
    (tmp_path / RUN).touch()
    assert is_run(tmp_path)
    check_is_run(tmp_path)
