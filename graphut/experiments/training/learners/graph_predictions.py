"""The predictions of a model for graphs in files, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphut.experiments.tasks import Vocabularies
from graphut.experiments.tasks.raw_graph import RawGraph
from graphut.models import UniversalGraphTransformer, UniversalGraphTransformerConfig
from graphut.models.outputs import GraphPrediction
from graphut.nn import EventDriven


def prediction_rows(
    model: UniversalGraphTransformer, files: Sequence[RawGraph], vocabularies: Vocabularies
) -> Iterator[dict[str, Any]]:
    """Yield a table row (a dictionary) for each node, graph or edge of the files, in their order.

    Its steps are of the node, or of the edge's target, or the mean over the nodes of the graph.
    With `EventDriven`, the column `steps` is named `updates`.
    """
    encoding = edge_options(model.config)
    graphs = [file.labelled(vocabularies["node"], None, *encoding) for file in files]
    names = vocabularies["answer"].symbols
    steps = "updates" if isinstance(model.evaluation_rule, EventDriven) else "steps"
    for file, graph, prediction in zip(files, graphs, model.predict(graphs), strict=True):
        answers = _answers(prediction, names, model.config.answer_kind)
        counts = prediction.steps.tolist()
        if model.config.answer_at == "graph":
            yield {"graph": file.name, **answers[0], steps: prediction.steps.double().mean().item()}
        elif model.config.answer_at == "node":
            for node, answer, count in zip(file.ids, answers, counts, strict=True):
                yield {"graph": file.name, "node": node, **answer, steps: count}
        else:
            assert prediction.probabilities is not None
            shares = prediction.probabilities.tolist()
            for (source, target), share in zip(graph.edges.T.tolist(), shares, strict=True):
                ends = {"source": file.ids[source], "target": file.ids[target]}
                share = {"is_chosen": source == prediction.labels[target], "probability": share}
                yield {"graph": file.name, **ends, **share, steps: counts[target]}


def edge_options(config: UniversalGraphTransformerConfig) -> tuple[int, list[str], int]:
    """Return the number of node features, the edge types, and the number of edge features."""
    return config.num_feats, config.edge_types.split(), config.edge_feats


def _answers(
    prediction: GraphPrediction, names: Sequence[str], target: str
) -> list[dict[str, Any]]:
    """Return a dictionary for each prediction: class or labels with probabilities, or values."""
    if prediction.values is not None:
        columns = ["value"] if len(names) == 1 else [f"value_{name}" for name in names]
        return [dict(zip(columns, row, strict=True)) for row in prediction.values.tolist()]
    if prediction.probabilities is None or not names:
        return []
    answers = []
    for row in prediction.probabilities.tolist():
        if target == "class":
            answer: dict[str, Any] = {"class": names[row.index(max(row))]}
        else:
            answer = {f"label_{n}": int(x > 0.5) for n, x in zip(names, row, strict=True)}
        answers.append(answer | {f"probability_{n}": x for n, x in zip(names, row, strict=True)})
    return answers
