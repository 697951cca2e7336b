"""Models on parts of a graph in two processes, compared with the whole graph in one."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from graphut.distributed import cut_graph
from graphut.models import UniversalGraphTransformer, UniversalGraphTransformerConfig
from graphut.nn import EventDriven
from tests.experiments.training.together import run_together
from tests.helpers import assert_same, normal
from tests.nn.cases import randomised

PART_OF = np.array([0, 1, 0, 1, 1, 0, 0])
SOURCE = [*range(7), 0, 1, 2, 3, 4, 5, 6, 2, 6]
TARGET = [*range(7), 1, 2, 3, 4, 5, 6, 0, 5, 1]
EDGES = np.array([SOURCE, TARGET])
CASES: dict[str, dict[str, Any]] = {
    "attention": {"halted": "copied"},
    "waking": {"messages": "max+sum", "adaptive": False, "step_signal": "none"},
    "gat": {"layer": "gat"},
    "gin": {"layer": "gin"},
    "graph": {"answer_at": "graph", "rule": "global:act"},
    "edge": {"answer_at": "edge"},
    "edge features": {"edge_feats": 2},
}


def make_model(**options: Any) -> UniversalGraphTransformer:
    sizes = {"num_feats": 3, "classes": 3, "d_model": 8, "num_heads": 2, "d_hidden": 8}
    config = UniversalGraphTransformerConfig(**sizes, max_steps=4, **options)  # type: ignore[arg-type]
    model: UniversalGraphTransformer = randomised(UniversalGraphTransformer(config))
    if not config.adaptive:
        model.rule = EventDriven(0.2)
    return model


def loss_of(model: UniversalGraphTransformer, logits: torch.Tensor, answers: Any) -> torch.Tensor:
    """Return a sum over answers of random multiples of the logits."""
    generator = torch.Generator().manual_seed(1)
    size = {"node": 7, "graph": 1, "edge": len(SOURCE)}[model.config.answer_at]
    weights = torch.randn(size, *logits.shape[1:], generator=generator).double()
    return (logits * weights[answers]).sum()


def test_forward_on_parts_equals_the_whole_graph(tmp_path: Path) -> None:
    feat, edge_feats, weights = (
        normal(7, 3),
        normal(len(SOURCE), 2, seed=1),
        torch.rand(len(SOURCE)),
    )
    expected = {}
    for name, options in CASES.items():
        model = make_model(**options)
        given = {"edge_feats": edge_feats} if "edge_feats" in options else {}
        if name == "attention":
            given = {"edge_weights": weights.double()}
        output = model(torch.from_numpy(EDGES), feat, **given)
        loss = loss_of(model, output.logits, slice(None))
        grads = torch.autograd.grad(loss, [*model.parameters()], allow_unused=True)
        expected[name] = model, given, output.logits.detach(), grads

    def check() -> None:
        arrays = {"number": np.arange(len(SOURCE))}
        part = [*cut_graph(EDGES, PART_OF, of_edges=arrays)][dist.get_rank()]
        mine = torch.from_numpy(part.arrays["number"])
        for name, (model, given, logits, wanted) in expected.items():
            of_edges = {key: rows[mine] for key, rows in given.items()}
            output = model(part.layout, feat.detach()[part.nodes], **of_edges)
            answers = {"node": part.nodes, "graph": slice(None), "edge": mine}[
                model.config.answer_at
            ]
            assert_same([output.logits], [logits[answers]])
            loss = loss_of(model, output.logits, answers)
            if name == "graph":  # all processes have the answer, and one of them counts
                loss = loss * (dist.get_rank() == 1)
            grads = torch.autograd.grad(loss, [*model.parameters()], allow_unused=True)
            for grad, whole in zip(grads, wanted, strict=True):
                assert (grad is None) == (whole is None)
                if grad is not None:
                    dist.all_reduce(grad)
                    assert_same([grad], [whole])

    run_together(check, tmp_path)
