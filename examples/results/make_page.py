"""Write examples/RESULTS.md and its charts from runs.csv, curves.csv, bench.csv and published.csv.

    python examples/results/make_page.py
The text is in page.md, a Jinja template that calls the functions below for every table and number.
It needs `pip install pandas matplotlib`.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import networkx
import numpy
import pandas as pd
import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pandas import DataFrame, Series

from graphut.attention import layout_from_edges
from graphut.experiments.messages import three_digits
from graphut.plotting import animate_frontier
from graphut.plotting.figure import line_styles, new_figure

HERE = Path(__file__).parent
PAGE = HERE.parent / "RESULTS.md"
RUN = ["task", "preset", "options", "seed"]
PRESETS = ["small", "fixed", "transformer", "untied"]
TREES = "graph-distance"

# Options that name the data: they belong to the label of a row, not to its model.
LABELS = ("--size", "--tasks", "--split", "--text", "--cut-off")

PLACES = {"bits": 2, "bleu": 2, "bleu_interval": 2, "error": 2, "rounds": 0}  # not shares


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, with escaped pipes."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *escaped])


def share(value: float) -> str:
    """Format a share (from 0 to 1) with three decimals; only an exact 1 is written as 1.000."""
    return f"{min(value, 0.999) if value < 1 else value:.3f}".removeprefix("0")


def form_of(metric: str) -> Callable[[float], str]:
    """Return the function that writes a metric."""
    places = PLACES.get(metric, 2 if metric.endswith("steps") else None)
    return share if places is None else f"{{:.{places}f}}".format


def read(name: str) -> DataFrame:
    """Return a table; rows of runs also get the label of their data, their model and error."""
    frame = pd.read_csv(HERE / name)
    text = frame.select_dtypes(exclude="number").columns
    frame[text] = frame[text].fillna("").astype(str)
    if "options" in frame:
        names = [describe(*row) for row in frame[["task", "preset", "options"]].to_numpy()]
        frame[["label", "model"]] = names
        frame["error"] = (100 - 100 * frame["accuracy"]).round(6)
    return frame


@cache
def describe(task: str, preset: str, text: str) -> tuple[str, str]:
    """Return the label of a run's data, and its model: the preset and the options for the model."""
    options: dict[str, list[str]] = {}
    for word in shlex.split(text):
        if word.startswith("--"):
            options[word] = [word]
        else:
            options[[*options][-1]].append(word)
    label = task.rpartition("/")[2].replace(".py:", "-").removesuffix(".py")
    named = {name: options.pop(name)[1] for name in LABELS if name in options}
    if label == "babi":
        tasks, size = named.get("--tasks", "1"), named.get("--size", "1k")
        label += f" {size} " + (f"qa{tasks}" if tasks.isdigit() else "joint")
        if size == "10k":
            del options["--epochs"]  # 40 in each of these runs
    elif named:
        label += f", {' '.join(named.values())}"
    for name in ("--data", "--sentences", "--precision"):
        options.pop(name, None)
    return label, shlex.join([preset, *(word for words in options.values() for word in words)])


CURVES, BENCH, RUNS = read("curves.csv"), read("bench.csv"), read("runs.csv")
CIRCUITS = read("circuits.csv")
PUBLISHED, MODELS = read("published.csv"), dict(read("models.csv").to_numpy())
WAYS = {name: MODELS[name] for name in [*MODELS][:9]}  # ways to halt, and baselines
SWEEPS = RUNS[RUNS.duplicated([*RUN, "set"])]  # later evaluations of a run, by other halting rules
RUNS = RUNS.drop(SWEEPS.index)


def find_untrained() -> set[tuple[Any, ...]]:
    """Return the runs that did not train.

    Such a run gets fewer than four fifths as many training labels right as another run on the same
    data, with at most as many epochs, and is worse on the validation set.
    """
    found, order = set(), ["training_accuracy", "validation"]
    rows = RUNS[(RUNS["set"] == "test") & (RUNS["preset"] != "waking")]
    for _, group in rows.groupby("label"):
        group = group.sort_values(order, ascending=[False, True])
        for run in group.itertuples():
            best = group[group["epoch_limit"] <= run.epoch_limit].iloc[0]
            fewer = run.training_accuracy < 0.8 * best["training_accuracy"]
            if fewer and run.validation < best["validation"]:
                found.add(tuple(getattr(run, name) for name in RUN))
    return found


UNTRAINED = find_untrained()


def failed(rows: DataFrame) -> list[bool]:
    """Return which rows are of runs that did not train."""
    return [tuple(run) in UNTRAINED for run in rows[RUN].to_numpy()]


def pick(
    label: str, model: str = "small", test_set: str = "test", table: DataFrame = RUNS
) -> DataFrame:
    """Return the rows of a model on a test set, by seed."""
    chosen = (table["label"] == label) & (table["model"] == model) & (table["set"] == test_set)
    rows = table[chosen].sort_values("seed", kind="stable")
    if table is RUNS and rows["seed"].duplicated().any():
        raise ValueError(f"two runs of {label}, {model} have the same seed")
    return rows


def spread(values: Iterable[float], form: Callable[[float], str] = share) -> str:
    """Return the mean of some values, and their standard deviation unless it is rounded to 0."""
    column = [*Series([*values], dtype=float).dropna()]
    deviation = form(stdev(column)) if len(column) > 1 else ""
    shown = f" ± {deviation}" if deviation.strip(".0") else ""
    return f"{form(fmean(column))}{shown}" if column else ""


def cell(label: str, what: str, model: str = "small") -> str:
    """Return the means of metrics over the seeds, and the deviation of the last metric.

    `what` is a test set and its metrics, such as "test encoder_steps+decoder_steps".
    """
    test_set, metrics = what.split()
    rows = pick(label, model, test_set)
    names = [name for name in metrics.split("+") if rows[name].notna().any()]
    if not names:
        return ""
    if all(failed(rows)):
        return "did not train"
    texts = [form_of(name)(fmean(rows[name])) for name in names[:-1]]
    texts.append(spread(rows[names[-1]], form_of(names[-1])))
    return " / ".join(texts)


def task_table(
    labels: Sequence[str], columns: Mapping[str, str], models: Mapping[str, str] | None = None
) -> str:
    """Return the table of a task: a row for each label and model, and published figures.

    `columns` maps titles to the `what` of `cell`, and `models` what a row is called to its model;
    without `models` they are the presets.
    """
    rows = []
    for label in labels:
        for name, model in (models or named()).items():
            found = pick(label, model)
            if not found.empty:
                row = [cell(label, what, model) for what in columns.values()]
                minutes = three_digits(found["minutes"].mean())
                row += [f"{found['weights'].iloc[0]:,}", minutes, str(len(found))]
                rows.append([label, name, *row])
        for who, group in PUBLISHED[PUBLISHED["label"] == label].groupby("model", sort=False):
            figures = dict(group[["column", "figure"]].to_numpy())
            cells = [figures.get(title, "") for title in columns]
            rows.append([label, who, *cells, "", "", ""])
    head = ["task", "model", *columns, "weights", "minutes", "seeds"]
    start = 1 if len(labels) == 1 else 0
    return markdown_table(head[start:], [row[start:] for row in rows])


def named(*names: str) -> dict[str, str]:
    """Return the presets, and some named models."""
    return {preset: preset for preset in PRESETS} | {name: MODELS[name] for name in names}


def babi_errors(size: str, how: str, model: str) -> DataFrame:
    """Return the error of each task (a row) for each seed (a column): "alone" or "joint"."""
    label = f"babi {size} " + ("joint" if how == "joint" else r"qa\d+")
    rows = RUNS[(RUNS["model"] == model) & RUNS["label"].str.fullmatch(label)]
    rows = rows.assign(qa=rows["set" if how == "joint" else "label"].str.split().str[-1])
    table = rows[rows["qa"] != "test"].pivot(index="qa", columns="seed", values="error")
    return table.loc[sorted(table.index, key=lambda name: int(name[2:]))]


def babi_average(size: str, how: str, model: str = "small") -> str:
    """Return the mean error of all tasks, over the seeds."""
    return spread(babi_errors(size, how, model).apply(fmean), "{:.2f}".format)


def babi_published(size: str, how: str, which: str) -> Series:
    """Return the paper's error of each task for which we have data, in percent."""
    column = f"{size} {how}, {which}"
    rows = PUBLISHED[(PUBLISHED["label"] == "babi") & (PUBLISHED["column"] == column)]
    found = Series(map(float, rows["figure"].iloc[0].split()), [f"qa{n}" for n in range(1, 21)])
    return found.drop("qa3") if size == "10k" else found


def babi_table(columns: Sequence[tuple[str, str, str]]) -> str:
    """Return the table of errors by task; a column is a size, "alone" or "joint", and a model."""
    found: list[tuple[str, Series, str]] = []
    for size, how, model in columns:
        name = f"{size} {how}: {model}"
        if model == "paper":
            errors = babi_published(size, how, "mean of ten runs")
            found.append((name, errors, f"{fmean(errors):.2f}"))
        else:
            model = MODELS.get(model, model)
            errors = babi_errors(size, how, model).mean(axis=1)
            found.append((name, errors, babi_average(size, how, model)))
    names = [f"qa{n}" for n in range(1, 21)]
    rows = [[qa, *(f"{e[qa]:.1f}" if qa in e else "" for _, e, _ in found)] for qa in names]
    rows.append(["mean", *(average for *_, average in found)])
    rows.append(["failed (over 5%)", *(str(int((errors > 5).sum())) for _, errors, _ in found)])
    return markdown_table(["task", *(name for name, *_ in found)], rows)


def at(label: str, what: str, model: str = "small", **where: Any) -> str:
    """Return the mean of a metric over rows of curves.csv with these values, or one of a list."""
    test_set, metric = what.split()
    rows = pick(label, model, test_set, CURVES)
    for column, wanted in where.items():
        rows = rows[rows[column].isin(wanted if isinstance(wanted, list) else [wanted])]
    weights = rows["nodes"].fillna(1)
    return form_of(metric)((rows[metric] * weights).sum() / weights.sum())


def sweep(label: str, model: str, test_set: str) -> DataFrame:
    """Return the evaluations of a model by several halting rules."""
    rows = pick(label, model, test_set, SWEEPS)
    words = [shlex.split(text) for text in rows["eval_options"]]
    options = [dict(zip(each[::2], each[1::2], strict=True)) for each in words]
    rules = [each["--evaluation-rule"].replace(",halt_from=output", "") for each in options]
    rules = Series([rule.replace(":halt_from=output", "") for rule in rules], rows.index, dtype=str)
    return rows.assign(rule=rules, cap=[int(each["--max-steps"]) for each in options])


def graph_table(problems: Sequence[tuple[str, str, str]], layers: Mapping[str, str]) -> str:
    """Return the table of problems on graphs: a label, a named model and its test sets.

    Beside it stand the best depth for all nodes of the same model, and `layers` of GATConv.
    """
    rows = []
    metrics = ["accuracy", "graph_accuracy", "steps", "work_ratio"]
    for label, name, sets in problems:
        model = MODELS[name]
        for test_set in sets.split():
            cells = [cell(label, f"{test_set} {metric}", model) for metric in metrics]
            depths = sweep(label, model, test_set)
            depths = depths[depths["rule"].str.startswith("fixed")]
            best = depths.sort_values(["accuracy", "cap"], ascending=[False, True]).head(1)
            fixed = [f"{row.cap}: {share(row.accuracy)}" for row in best.itertuples()]
            gat = cell(label, f"{test_set} accuracy", MODELS.get(layers.get(label, ""), ""))
            rows.append([label, test_set, *cells, *(fixed or [""]), gat])
    head = ["task", "test set", "accuracy", "graphs", "steps", "work / needed"]
    return markdown_table([*head, "best depth for all", "GATConv"], rows)


def measured(bench: str, processor: str, workload: str) -> DataFrame:
    """Return the rows of a benchmark on a processor; a regular expression chooses workloads."""
    rows = BENCH[(BENCH["bench"] == bench) & BENCH["workload"].str.contains(workload)]
    return rows[rows["vectors"] == processor]


def times(bench: str, ours: str, peer: str, processor: str = "", workload: str = "") -> Series:
    """Return how many times as fast as a peer a contender is, on each workload."""
    rows = measured(bench, processor, workload)
    table = rows.pivot(index=["workload", "command"], columns="contender", values="ms")
    return (table[peer] / table[ours]).dropna()


def between(values: Series) -> str:
    """Return the least and the greatest value."""
    return f"{three_digits(values.min())} to {three_digits(values.max())}"


def bench_table(
    bench: str, ours: Sequence[str], peers: Sequence[str], processor: str, workload: str
) -> str:
    """Return the newest times of some contenders, and how many times as fast as peers they are."""
    rows = measured(bench, processor, workload)
    rows = rows.drop_duplicates(["workload", "contender"], keep="last")
    more = {"gflop_s": "GFLOP/s"} if rows["gflop_s"].notna().any() else {}
    found = []
    for (name, _), group in rows.groupby(["workload", "command"], sort=False):
        by_contender = group.set_index("contender")
        for contender in (own for own in ours if own in by_contender.index):
            own = by_contender.loc[contender]
            numbers = [own["ms"], *own[[*more]], *by_contender["ms"].reindex(peers) / own["ms"]]
            cells = ["" if pd.isna(number) else three_digits(number) for number in numbers]
            found.append([name, contender, *cells])
    head = ["workload", "", "ms", *more.values(), *(f"x {peer}" for peer in peers)]
    return markdown_table(head, found)


def edge_times() -> str:
    """Return the time of an edge with the first topology, and the ratios of the others to it."""
    first, *others = measured("topologies", "AVX512", "").itertuples()
    ratio = {row.contender: row.ns_per_edge / first.ns_per_edge for row in others}
    ratios = ", ".join(f"`{topology}` {times:.2f}" for topology, times in ratio.items())
    return f"of `{first.contender}` takes {first.ns_per_edge:.0f} ns; relative to it: {ratios}"


def circuit_table() -> str:
    """Return the table of new starts: accuracy and work for some circuits."""
    rows = []
    for name, group in CIRCUITS[CIRCUITS["change"] == "input"].groupby("circuit", sort=False):
        first, model = group.iloc[0], "waking"
        metrics = ("accuracy", "graph_accuracy", "steps", "rounds")
        cells = [cell("circuits", f"DATA/{name} {metric}", model) for metric in metrics]
        columns = ("start_evaluations", "start_events")
        simulated = [f"{first[column] / first['nodes']:.2f}" for column in columns]
        size = [f"{first[column]:,.0f}" for column in ("nodes", "levels")]
        rows.append([name, *size, *cells, *simulated])
    head = ["circuit", "nodes", "levels", "accuracy", "graphs", "updates", "rounds"]
    return markdown_table([*head, "evaluations", "events"], rows)


def change_table() -> str:
    """Return the table of changes of circuits: correctness, work and CPU time."""
    rows = []
    for (name, what), group in CIRCUITS.groupby(["circuit", "change"], sort=False):
        mean = group.mean(numeric_only=True)
        right = f"{(group['right'] * group['changes']).sum():.0f} of {group['changes'].sum()}"
        work = mean[["updates", "start_updates", "values", "evaluations"]]
        times = mean[["ms", "start_ms", "every_gate_ms", "simulator_ms"]]
        rows.append([name, what, right, *map(three_digits, [*work, *times])])
    head = ["circuit", "change", "right", "updates", "new start", "values changed", "evaluations"]
    return markdown_table([*head, "ms", "new start", "every gate", "simulator"], rows)


def library() -> DataFrame:
    """Return the results for the circuits of circuitgraph: the worst seed of each."""
    rows = RUNS[(RUNS["label"] == "circuits") & ~RUNS["set"].str.contains("-|test")]
    return rows.groupby("set").agg({"accuracy": "min", "quiescent": "min", "seed": "count"})


def draw(name: str, panels: Iterable[tuple[str, str, str, Mapping[str, DataFrame]]]) -> None:
    """Draw three panels: of each a title, names of x and y, and lines of two columns."""
    figure = new_figure(12, 3.3)
    for number, (title, x, y, lines) in enumerate(panels, 1):
        axes = figure.add_subplot(1, 3, number)
        for (label, points), style in zip(lines.items(), line_styles(), strict=False):
            colour, mark, line = style
            if points.empty:  # the model was not trained on this task
                continue
            axes.plot(*points.to_numpy().T, mark + line, color=colour, markersize=4, label=label)
        axes.set(title=title, xlabel=x, ylabel=y.replace("_", " "), xlim=(0, None))
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.legend(frameon=False, fontsize="small")
    figure.savefig(HERE / f"{name}.png", dpi=100, metadata={"Software": None})


def curve(label: str, model: str, test_set: str, x: str, y: str) -> DataFrame:
    """Return two columns of curves.csv, as means over the seeds."""
    rows = pick(label, model, test_set, CURVES)
    rows = rows.assign(length=(rows["from"] + rows["to"]) / 2)
    return rows.groupby(x, as_index=False)[y].mean()


def draw_tree() -> None:
    """Draw a tree whose nodes take as many steps as their distance to node 0, but at least one."""
    random = numpy.random.default_rng(0)
    tree = networkx.Graph((int(random.integers(max(0, n - 3), n)), n) for n in range(1, 24))
    distance = networkx.single_source_shortest_path_length(tree, 0)
    ends = torch.tensor([*tree.edges, *((b, a) for a, b in tree.edges), *((n, n) for n in tree)]).T
    layout = layout_from_edges(*ends, num_src=24, num_dst=24)
    place, steps = networkx.kamada_kawai_layout(tree), [max(1, distance[n]) for n in range(24)]
    places = numpy.stack([place[n] for n in range(24)])
    animation = animate_frontier(layout, steps, names=["*", *[""] * 23], places=places)
    animation.save(HERE / "frontier.gif", writer="pillow", dpi=100)


def draw_charts() -> None:
    """Draw the charts of the page."""
    tasks = [f"algorithmic-{name}" for name in ("copy", "reverse", "addition")]
    accuracy = "sequence_accuracy"
    draw("lengths", (
        (task, "symbols of the source", accuracy,
         {model: curve(task, model, "up-to-400", "length", accuracy) for model in PRESETS[:3]})
        for task in tasks
    ))  # fmt: skip
    away, rules = "edges to the marked node", sweep(TREES, "small", "near-1000")
    steps, correct = [*WAYS][:4], ["threshold", "fixed", "GATConv", "GINConv"]
    draw("distance", [
        ("1000 nodes", away, "mean steps",
         {way: curve(TREES, WAYS[way], "near-1000", "depth", "steps") for way in steps}),
        ("100 nodes", away, "accuracy",
         {way: curve(TREES, WAYS[way], "near-100", "depth", "accuracy") for way in correct}),
        ("1000 nodes, one model", "work / needed", "accuracy", {
            name: rules[rules["rule"].str.startswith(name)].sort_values("work_ratio")[
                ["work_ratio", "accuracy"]] for name in ("threshold", "fixed")}),
    ])  # fmt: skip


def real_graphs() -> str:
    """Return the table of `node_classification.py`: means over the splits and seeds of a model."""
    head = ["graph", "seconds", "model", "runs", "test", "steps", "weights"]
    table, rows = read("real_graphs.csv"), []
    whole = table["cpu_s"].astype(int)  # the budget, and a part of the last epoch
    table["seconds"] = [seconds - seconds % (10 if seconds > 99 else 1) for seconds in whole]
    is_limited = table["model"].str.endswith("-epochs")
    table.loc[is_limited, "seconds"] = round(table["cpu_s"][is_limited].mean())
    for (data, seconds, model), runs in table.groupby(["data", "seconds", "model"], sort=False):
        mean = runs.mean(numeric_only=True)
        steps = "" if pd.isna(mean["steps"]) else f"{mean['steps']:.1f}"
        cells = [spread([*runs["test"]]), steps, f"{mean['weights']:,.0f}"]
        rows.append([data.removesuffix("_filtered"), str(seconds), model, str(len(runs)), *cells])
    return markdown_table(head, rows)


def render() -> str:
    """Return the text of the page."""
    whole = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    templates = Environment(loader=FileSystemLoader(HERE), undefined=StrictUndefined, **whole)
    return templates.get_template("page.md").render(globals()).lstrip()


if __name__ == "__main__":
    draw_tree()
    draw_charts()
    PAGE.write_text(render(), encoding="utf-8")
