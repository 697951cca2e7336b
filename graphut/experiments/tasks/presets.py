"""Named sets of options for tasks, and the values that several tasks share."""

from typing import Any

Preset = dict[str, Any]

SMALL, FIXED, TRANSFORMER, UNTIED = "small", "fixed", "transformer", "untied"
WAKING, REGISTERS = "waking", "registers"

MEANINGS = {
    SMALL: "for two CPU cores",
    FIXED: "the same without halting",
    TRANSFORMER: "a plain Transformer of as many weights",
    UNTIED: "a plain Transformer as deep and as wide",
    WAKING: "a node computes only when something that it reads has changed",
    REGISTERS: "exact numbers instead of learned states, with the graphs of SALSA-CLRS",
}
"""A short description of each preset; `small` is the default."""


def model_size(d_model: int, d_hidden: int, max_steps: int) -> Preset:
    """Return a preset with the options for the size of a model."""
    return {"d_model": d_model, "d_hidden": d_hidden, "max_steps": max_steps}


PAIRS: Preset = model_size(64, 256, 6) | {"share_embeddings": True, "epochs": 40}

# Steps have a cost from the first update. Otherwise the decoder may learn to take all of them, and
# keep doing so.
COPY: Preset = PAIRS | {"learning_rate": 2e-3, "ponder_weight": 0.02, "ponder_warmup": 0}

# With post-norm, six steps do not train on every task. All tokens begin with all steps, and learn
# to halt while they learn to answer, because a model that soon halts at its first step never learns
# to use two. At first, tokens attend to similar tokens (`symmetric_init`) and mix with their
# neighbours (`sepconv`).
DEEP: Preset = {
    "transition": "sepconv",
    "norm": "pre",
    "symmetric_init": True,
    "halting_bias": -3.0,
    "halting_gain": 0.0,
    "ponder_weight": 0.01,
}

# With post-norm, language models do not learn at these rates: with halting they halt at once, and
# without halting their loss does not fall.
LANGUAGE_MODEL: Preset = {"norm": "pre", "ponder_weight": 0.01, "ponder_warmup": 0}

# Layers of half the width have a quarter of the weights.
NARROW_LAYERS: Preset = model_size(32, 128, 4)
WIDE_LAYERS: Preset = model_size(64, 256, 4)

# Without step and position signals, and with the first states injected at every step, a node
# changes only when information arrives. In training all nodes take all steps, answer after each
# step, and learn to predict whether the answer is correct. In evaluation a node halts when sure.
WHEN_RIGHT: Preset = {
    "step_signal": "none",
    "inject_input": True,
    "halted": "frozen",
    "rule": "fixed:halt_from=output",
    "evaluation_rule": "threshold:threshold=0.9,halt_from=output",
    "step_loss": "mean",
    "halting_loss": 0.3,
    "ponder_weight": 0.0,
}
_NOISY: Preset = {"noise": 0.3, "noise_on": "every_step"}
_SHORT_RUN: Preset = {"learning_rate": 2e-3, "warmup": 100, "batch_size": 32}
GRAPHS: Preset = WHEN_RIGHT | model_size(32, 64, 16) | _NOISY | _SHORT_RUN | {"epochs": 8}
NARROW_GRAPH_LAYERS: Preset = model_size(8, 16, 14)


# In training, every node computes in a fixed number of rounds on small graphs. Noise makes the
# states stable, and a penalty on change makes nodes rest while they wait for news. In evaluation,
# a node computes only when something that it reads has changed, so that large graphs take as many
# rounds as they need. A halting probability is not needed.
EVENT_DRIVEN: Preset = (
    model_size(32, 64, 20)
    | _NOISY
    | _SHORT_RUN
    | {
        "adaptive": False,
        "evaluation_rule": "event_driven:tol=0.3",
        "step_signal": "none",
        "inject_input": True,
        "step_loss": "second_half",
        "change_penalty": 0.1,
        "ponder_weight": 0.0,
        "choose_by": "last",
        "precision": "float32",
    }
)
WAKING_GRAPHS: Preset = EVENT_DRIVEN | {
    "test_sizes": "100,1000",
    "test_families": "near,uniform,delaunay,grid,watts-strogatz,road",
}
# Quantised states come to rest exactly, without a tolerance to choose.
QUANTIZED: Preset = {
    "quantize": 2,
    "quantize_noise": 0.3,
    "change_scale": 0.3,
    "evaluation_rule": "event_driven",
}

# A single graph is one update per epoch. Without a LayerNorm on the features, sparse features of
# words are too small to learn from: 60% of Cora's papers instead of 80%.
_OWN_GRAPHS: Preset = model_size(64, 128, 8) | {
    "norm": "pre",
    "halted": "frozen",
    "input_norm": True,
    "epochs": 200,
    "patience": 100,
    "warmup": 50,
}


def with_baselines(small: Preset, transformer: Preset) -> dict[str, Preset]:
    """Return the presets `small`, `fixed`, `transformer` and `untied`, by name.

    The preset `fixed` is `small` without halting, and `untied` is `fixed` with separate weights for
    each step. The preset `transformer` is `untied` with the fields in the argument `transformer`,
    which give a model as many weights as `small` has.
    """
    fixed = small | {"adaptive": False}
    if "evaluation_rule" in small:
        fixed |= {"evaluation_rule": ""}
    untied = fixed | {"share_weights": False}
    return {SMALL: small, FIXED: fixed, TRANSFORMER: untied | transformer, UNTIED: untied}


OWN_GRAPHS = with_baselines(_OWN_GRAPHS, model_size(24, 36, 8))

# The graphs of SALSA-CLRS (arXiv 2309.12253), with 100 test graphs of each kind instead of 1000.
SALSA_GRAPHS: Preset = {
    "families": "erdos-renyi-16",
    "sizes": "4,7,11,13,16",
    "pool": 10_000,
    "test_families": "erdos-renyi,watts-strogatz,delaunay",
    "test_sizes": "16,80,160,800,1600",
    "test_nodes": 1,
    "test_graphs": 100,
}
# Nine weights: which operation gives the distances is learned from the edges alone.
_REGISTERS: Preset = SALSA_GRAPHS | {
    "layer": "registers",
    "adaptive": False,
    "evaluation_rule": "event_driven",
    "step_signal": "none",
    "inject_input": True,
    "max_steps": 8,
    "step_loss": "second_half",
    "learning_rate": 0.03,
    "warmup": 10,
    "batch_size": 16,
    "epochs": 1,
    "ponder_weight": 0.0,
    "choose_by": "last",
}
_SURE: Preset = {"evaluation_rule": "threshold:threshold=0.97,halt_from=output"}

GRAPH_PROBLEM = with_baselines(GRAPHS, NARROW_GRAPH_LAYERS)
DISTANCE = GRAPH_PROBLEM | {
    WAKING: WAKING_GRAPHS
    | {
        "families": "near,erdos-renyi,watts-strogatz,delaunay,grid,path,isolated",
        "sizes": "4-20",
        "step_loss": "mean",
        "epochs": 4,
        "test_sizes": "100,1000,10000",
    }
}
REACH = GRAPH_PROBLEM | {
    WAKING: WAKING_GRAPHS
    | {"families": "near,erdos-renyi,delaunay,grid,path", "sizes": "4-20", "epochs": 2}
}
# A sum counts neighbours, which a mean cannot. Branches of a tree without a mark are pruned from
# their leaves: a node is pruned when all its neighbours but one are. A correct guess may become
# wrong, so the halting unit learns whether an answer stays correct. For nodes that wake, losses
# before a label can be known let some runs guess it from the distance to the marks, and lose long
# paths; after two epochs, nodes with many pruned neighbours may still count as on the path.
PATH = with_baselines(
    GRAPHS | _SURE | {"layer": "gin", "max_steps": 24, "halting_target": "stays_right"},
    {"layer": "attention", **model_size(8, 16, 9)},
) | {
    WAKING: WAKING_GRAPHS
    | QUANTIZED
    | {
        "families": "near,uniform,recursive,maze",
        "sizes": "4-32",
        "max_steps": 32,
        "step_loss": "known",
        "quantize": 1,
        "batch_size": 16,
        "layer": "none",
        "messages": "max+sum",
        "epochs": 6,
        "test_families": "near,uniform,path,balanced,maze",
    }
}
# A guess is often correct, so the threshold is higher. The answers take two more linear maps. The
# distance modulo 3 tells which neighbours are nearer to the mark.
BFS = with_baselines(GRAPHS | _SURE, NARROW_GRAPH_LAYERS | {"max_steps": 18}) | {
    WAKING: WAKING_GRAPHS
    | {
        "families": "path,road,cycle,near,grid,delaunay,watts-strogatz,erdos-renyi",
        "sizes": "4-22",
        "max_steps": 22,
        "messages": "max",
        "depth_modulus": 3,
        "epochs": 3,
        "test_families": "watts-strogatz,delaunay,grid,road",
    },
    REGISTERS: _REGISTERS,
}
DIJKSTRA = with_baselines(GRAPHS, NARROW_GRAPH_LAYERS | {"max_steps": 17}) | {REGISTERS: _REGISTERS}
