from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from graphut.experiments.tasks import Copy, Text
from graphut.experiments.training.learners.pairs import PairLearner, decode
from graphut.experiments.training.learners.texts import score_texts
from graphut.experiments.training.processes import (
    collected,
    dealt,
    is_first,
    joined_processes,
    noticing_ends,
    num_processes,
    rank,
    summed,
    wait_for_all,
)
from graphut.models import (
    UniversalTransformer,
    UniversalTransformerConfig,
    UniversalTransformerLM,
    UniversalTransformerLMConfig,
)
from tests.experiments.training.together import run_together

SHAPE = {"d_model": 8, "num_heads": 2, "d_hidden": 8, "max_steps": 3}


def test_processes_share_and_join(tmp_path: Path) -> None:
    torch.manual_seed(0)
    pairs = Copy(mean_length=3, held_out=11).test
    model = UniversalTransformer(
        UniversalTransformerConfig(**PairLearner().sizes(Copy()), **SHAPE)  # type: ignore[arg-type]
    )
    texts = [Text(source) for source, _ in pairs]
    writer = UniversalTransformerLM(
        UniversalTransformerLMConfig(vocab_size=28, **SHAPE)  # type: ignore[arg-type]
    )
    outputs = decode(model, pairs, batch_size=3)
    scores = score_texts(writer, texts, [3])

    def check() -> None:
        assert num_processes() == 3 and is_first() == (rank() == 0)
        for size in range(8):
            items = list(range(size))
            own = dealt(items)
            assert len(own) in (size // 3, -(-size // 3))
            assert collected(own) == items
        assert float(summed(torch.tensor(2.0 ** rank()))) == 7.0
        wait_for_all()
        assert decode(model, pairs, batch_size=3) == outputs
        found = score_texts(writer, texts, [3])
        assert found.texts == scores.texts
        for column in ("text", "nats", "right", "steps", "candidates"):
            assert torch.equal(getattr(found, column), getattr(scores, column))

    run_together(check, tmp_path, count=3)


def test_a_process_notices_that_another_one_has_ended(tmp_path: Path) -> None:
    def check() -> None:
        if rank() == 1:
            os._exit(0)
        message = "process 0 stops, since another one has"
        with pytest.raises(ConnectionError, match=message), noticing_ends():
            wait_for_all()

    run_together(check, tmp_path)


def test_noticing_ends_leaves_other_errors_alone() -> None:
    with pytest.raises(RuntimeError, match="a bug"), noticing_ends():
        raise RuntimeError("a bug")


@pytest.mark.parametrize("size", [None, "1"])
def test_joined_processes_of_one_process(
    size: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if size is None:
        monkeypatch.delenv("WORLD_SIZE", raising=False)
    else:
        monkeypatch.setenv("WORLD_SIZE", size)
    with joined_processes():
        print(num_processes(), rank())
    assert capsys.readouterr().out == "1 0\n"
