"""Presets (named sets of options) for the tasks on random graphs."""

from graphut.experiments.tasks.presets import (
    GRAPHS,
    GWAC,
    NARROW_GRAPH_LAYERS,
    QUANTIZED,
    REGISTERS,
    SALSA_CLRS,
    WAKING,
    WAKING_GRAPHS,
    Preset,
    model_size,
    with_baselines,
)

# A sum counts neighbours, which a mean cannot. Branches of a tree without a mark are pruned from
# their leaves: a node is pruned when all its neighbours but one are. A correct guess may become
# wrong, so the halting unit learns whether an answer stays correct.
_COUNTING_GRAPHS: Preset = GRAPHS | {
    "layer": "gin",
    "max_steps": 24,
    "halting_target": "stays_right",
    "evaluation_rule": "threshold:threshold=0.97,halt_from=output",
}
_NARROW_COUNTING_LAYERS: Preset = {"layer": "attention", **model_size(8, 16, 9)}
_WAKING_DISTANCE: Preset = WAKING_GRAPHS | {
    "families": "near,erdos-renyi,watts-strogatz,delaunay,grid,path,isolated",
    "sizes": "4-20",
    "step_loss": "mean",
    "epochs": 4,
    "test_sizes": "100,1000,10000",
}
# The protocol of GwAC (lukasjf/gwac): 100 fixed training graphs and 10 test graphs of each size.
_WAKING_GWAC: Preset = (
    _WAKING_DISTANCE
    | QUANTIZED
    | {
        "families": "gwac",
        "sizes": "10-10",
        "pool": 100,
        "max_steps": 12,
        "epochs": 3,
        "test_sizes": "10,25,50,100,250,500,1000",
        "test_families": "gwac",
        "test_nodes": 1,
        "test_graphs": 10,
    }
)
_WAKING_REACH: Preset = WAKING_GRAPHS | {
    "families": "near,erdos-renyi,delaunay,grid,path",
    "sizes": "4-20",
    "epochs": 2,
}
# Whether a node is on the path depends on counts of its neighbours, which softmax attention
# averages away. With losses before a label can be known, some runs learn to guess it from the
# distance to the marks, and lose long paths. After two epochs, nodes with many pruned neighbours
# may still count as on the path.
_WAKING_PATH: Preset = (
    WAKING_GRAPHS
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
)
# The distance modulo 3 tells which neighbours are nearer to the mark.
_WAKING_BFS: Preset = WAKING_GRAPHS | {
    "families": "path,road,cycle,near,grid,delaunay,watts-strogatz,erdos-renyi",
    "sizes": "4-22",
    "max_steps": 22,
    "messages": "max",
    "depth_modulus": 3,
    "epochs": 3,
    "test_families": "watts-strogatz,delaunay,grid,road",
}
# The protocol of SALSA-CLRS (arXiv 2309.12253), with 100 test graphs of each kind in place of 1000.
_SALSA: Preset = {
    "families": "erdos-renyi-16",
    "sizes": "4,7,11,13,16",
    "pool": 10_000,
    "test_families": "erdos-renyi,watts-strogatz,delaunay",
    "test_sizes": "16,80,160,800,1600",
    "test_nodes": 1,
    "test_graphs": 100,
}
_WAKING_SALSA_BFS: Preset = (
    _WAKING_BFS | _SALSA | {"max_steps": 16, "messages": "none", "epochs": 5}
)
# From noisy states, a model learns to find the answer whatever was known before.
_WAKING_SALSA_MIS: Preset = (
    WAKING_GRAPHS | _SALSA | QUANTIZED | {"max_steps": 12, "initial_noise": 1.0, "epochs": 5}
)
# Nine weights: which operation gives the distances is learned from the edges alone.
_REGISTERS: Preset = _SALSA | {
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
# The protocol of Deep Thinking (arXiv 2106.04537): trained with 32 bits, tested with 512.
_WAKING_PREFIX: Preset = (
    WAKING_GRAPHS
    | QUANTIZED
    | {
        "families": "path",
        "sizes": "32-32",
        "max_steps": 36,
        "epochs": 2,
        "test_sizes": "512",
        "test_families": "",
        "test_graphs": 1000,
    }
)

DEFAULT = with_baselines(GRAPHS, NARROW_GRAPH_LAYERS)
DISTANCE = DEFAULT | {WAKING: _WAKING_DISTANCE, GWAC: _WAKING_GWAC}
REACH = DEFAULT | {WAKING: _WAKING_REACH}
PATH = with_baselines(_COUNTING_GRAPHS, _NARROW_COUNTING_LAYERS) | {WAKING: _WAKING_PATH}
# A guess is often correct, so the threshold is higher. The answers take two more linear maps.
BFS = with_baselines(
    GRAPHS | {"evaluation_rule": "threshold:threshold=0.97,halt_from=output"},
    NARROW_GRAPH_LAYERS | {"max_steps": 18},
) | {WAKING: _WAKING_BFS, SALSA_CLRS: _WAKING_SALSA_BFS, REGISTERS: _REGISTERS}
DIJKSTRA = with_baselines(GRAPHS, NARROW_GRAPH_LAYERS | {"max_steps": 17}) | {REGISTERS: _REGISTERS}
MIS = DEFAULT | {SALSA_CLRS: _WAKING_SALSA_MIS}
PREFIX = with_baselines(GRAPHS | {"max_steps": 24}, NARROW_GRAPH_LAYERS) | {WAKING: _WAKING_PREFIX}
