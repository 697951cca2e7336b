"""Presets (named sets of options) for the tasks on random graphs."""

from graphut.experiments.tasks.presets import (
    GRAPHS,
    NARROW_GRAPH_LAYERS,
    QUANTIZED,
    REGISTERS,
    WAKING,
    WAKING_GRAPHS,
    Preset,
    model_size,
    with_baselines,
)

# The graphs of SALSA-CLRS (arXiv 2309.12253), with 100 test graphs of each kind in place of 1000.
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

DEFAULT = with_baselines(GRAPHS, NARROW_GRAPH_LAYERS)
DISTANCE = DEFAULT | {
    WAKING: WAKING_GRAPHS
    | {
        "families": "near,erdos-renyi,watts-strogatz,delaunay,grid,path,isolated",
        "sizes": "4-20",
        "step_loss": "mean",
        "epochs": 4,
        "test_sizes": "100,1000,10000",
    }
}
REACH = DEFAULT | {
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
