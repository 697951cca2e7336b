"""The predictions of a model for graphs in files, as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from graphut.experiments.tasks import Vocabularies
from graphut.experiments.tasks.graph_files import GraphFile
from graphut.models import UniversalGraphTransformer
from graphut.models.outputs import GraphPrediction
from graphut.nn import EventDriven


def prediction_rows(
    model: UniversalGraphTransformer, files: Sequence[GraphFile], vocabularies: Vocabularies
) -> Iterator[dict[str, Any]]:
    """Yield a row for each node, graph or edge of the files, in their order.

    A row has the id of the graph, of the node or of the ends of the edge, the predicted class,
    the probabilities, and the steps. Nodes that wake have `updates` instead of `steps`. A graph has
    the mean of its nodes.
    """
    kinds, num_feats = vocabularies["node"], model.config.num_feats
    graphs = [file.labelled(kinds, None, num_feats) for file in files]
    names = vocabularies["answer"].symbols
    steps = "updates" if isinstance(model.evaluation_rule, EventDriven) else "steps"
    for file, graph, found in zip(files, graphs, model.predict(graphs), strict=True):
        answers = _answers(found, names)
        if model.config.answer_at == "graph":
            yield {"graph": file.name, **answers[0], steps: found.steps.double().mean().item()}
        elif model.config.answer_at == "node":
            for node, answer, count in zip(file.ids, answers, found.steps.tolist(), strict=True):
                yield {"graph": file.name, "node": node, **answer, steps: count}
        else:
            taken = found.steps.tolist()
            for (source, target), share in zip(
                graph.edges.T.tolist(), found.probabilities.tolist(), strict=True
            ):
                ends = {"source": file.ids[source], "target": file.ids[target]}
                share = {"is_chosen": source == found.labels[target], "probability": share}
                yield {"graph": file.name, **ends, **share, steps: taken[target]}


def _answers(found: GraphPrediction, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the columns for each answer: its class, and the probability of each class."""
    columns = [f"probability_{name}" for name in names]
    rows = found.probabilities.tolist() if names else []
    return [
        {"class": names[row.index(max(row))], **dict(zip(columns, row, strict=True))}
        for row in rows
    ]
