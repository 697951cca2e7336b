from pathlib import Path

import torch

from graphut.experiments.tasks import Copy, Text
from graphut.experiments.training import processes
from graphut.experiments.training.learners.sequences import PairLearner, decode
from graphut.experiments.training.learners.texts import joined, score_texts
from tests.experiments.training.learners.small_models import make_language_model, small_model
from tests.experiments.training.together import run_together


def test_processes_exchange_what_they_have_computed(tmp_path: Path) -> None:
    pairs = Copy(mean_length=3, held_out=11).test
    model = small_model(PairLearner, Copy())
    texts, writer = [Text(source) for source, _ in pairs], make_language_model(vocab_size=28)
    outputs = decode(model, pairs, batch_size=3)
    scores = score_texts(writer, texts, [3])

    def check() -> None:
        assert processes.num_processes() == 3 and processes.is_first() == (processes.rank() == 0)
        for size in range(8):
            items = list(range(size))
            own = processes.shard(items)
            assert len(own) in (size // 3, -(-size // 3))
            assert processes.all_gather(own) == items
        assert float(processes.all_reduce_sum(torch.tensor(2.0 ** processes.rank()))) == 7.0
        processes.barrier()
        assert decode(model, pairs, batch_size=3) == outputs
        found = score_texts(writer, texts, [3])
        assert [score.text for score in found] == [score.text for score in scores]
        for column in ("nats", "correct", "steps", "candidates"):
            assert torch.equal(joined(found, column), joined(scores, column))

    run_together(check, tmp_path, count=3)
