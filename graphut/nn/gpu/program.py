"""A recurrence as a fixed sequence of kernel launches, whatever nodes halt at which step."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from graphut.attention.triton.launches import (
    Dropout,
    Launch,
    Rows,
    TileSizes,
    constant,
    dropout_of,
    edges_from,
    launch_of,
    launches_of,
    named,
    padded,
    with_options,
)
from graphut.nn.gpu.kernels import NO_OPERAND, Norm, Operand, Shared, Step
from graphut.nn.gpu.kernels.products import product, weight_gradient
from graphut.nn.gpu.kernels.rows import advance, finish, finish_backward, rows_backward
from graphut.nn.gpu.settings import NORMS, PLACES, Settings
from graphut.nn.gpu.weights import Weights

GROUP = 1024  # nodes whose active ones are counted together
CHUNK = 8  # steps whose launches are made together; between two chunks the host waits
ALIGNED = 4  # int32 in 16 bytes, for which one variant of a kernel is compiled
PROGRAMS = 256  # of a kernel that loops over rows, or over parts of a weight's gradient
ALL = slice(None)  # all steps
# Tensors to which programs add.
ADDED = {"unit", "to_encodings", *(f"{norm}_parts" for norm in NORMS)}
Tensors = Mapping[str, Tensor]  # by their names in `graphut.nn.gpu.device_loop` and in kernels


class Program:
    """The launches of a recurrence, and the tensors that they read and write.

    All tensors have the full size, and the launches read the numbers of sources, of destinations
    and of active nodes on the device. `inputs` are the tensors that `load` fills. `forward` and
    `backward` have a list of launches for each `CHUNK` of steps. The list that must precede the
    others of the backward pass is the last.
    """

    def __init__(self, settings: Settings, inputs: Tensors) -> None:
        self.weights = Weights(settings, inputs)
        self.settings, self.given = settings, inputs
        self.inputs: Tensors = {**inputs, **self.weights.tensors}
        self.size, self.width = inputs["states"].shape
        self.work, self.crosses = settings.work, "encoded" in inputs
        # The sums in a step, each with the LayerNorm that is applied to it.
        sums = ["rows", "middle", *["crossed"] * self.crosses, "sums"]
        norms = ["attention", *["cross"] * self.crosses, "transition"]
        after: list[str | None] = [None, *norms] if settings.norm == "post" else [*norms, None]
        self.norms = dict(zip(sums, after, strict=True))
        # What each weight is multiplied by, the result, and what is added to it.
        self.reads = {"joint": "rows", "output": "mixed", "last": "inner", "first": sums[-2]}
        self.reads |= {"cross_query": "middle", "cross_output": "cross_mixed"}
        self.writes = {"joint": "query", "output": "middle", "last": "sums", "first": "inner"}
        self.writes |= {"cross_query": "cross_query", "cross_output": "crossed"}
        self.beside = {"output": "rows", "cross_output": "middle", "last": sums[-2]}
        self.products = [name for name in self.reads if f"{name}_weight" in self.inputs]
        self.whole: dict[str, Tensor] = {}  # tensors that all steps share
        self.steps: dict[str, Tensor] = {}  # tensors with a row for each step
        self.parts: dict[str, Tensor] = {}  # sums of programs, which `gradients` adds up
        self._allocate()
        if settings.learns:
            self._allocate_gradients()
        self.shared = self._shared()
        steps = range(1, settings.max_steps + 1)
        chunks = [steps[first : first + CHUNK] for first in range(0, len(steps), CHUNK)]
        later = [self.steps[name][CHUNK:] for name in ("active", "number")]  # 0 if not made
        self.forward: list[list[Any]] = [[x for t in c for x in self._forward(t)] for c in chunks]
        self.forward[0][:0] = [partial(torch._foreach_zero_, later), self.weights.prepare]
        self.backward: list[list[Any]] = []
        if settings.learns:
            zeros = [x for name, x in (self.parts | self.whole).items() if name in ADDED]
            self.backward = [[x for t in reversed(c) for x in self._backward(t)] for c in chunks]
            self.backward[0] += map(self._weight_gradient, self.products)
            self.backward[0].append(partial(self.weights.collect, self.parts))
            self.backward.append([partial(torch._foreach_zero_, zeros)])
        kinds = (self.inputs, self.whole, self.steps, self.parts)
        self.nbytes = sum(x.nbytes for kind in kinds for x in kind.values())  # at most

    def load(self, inputs: Tensors) -> None:
        """Copy the inputs of a call; those by node may have fewer rows."""
        own = [x[: len(inputs[name])] for name, x in self.given.items()]
        copy_by_dtype(own, [inputs[name] for name in self.given])

    def is_active_after(self, chunks: int) -> bool:
        """Return whether a node is active after `chunks` chunks; the host waits for the device."""
        return bool(self.whole["going"][chunks * CHUNK + 1].any())

    # Tensors.

    def _new(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return self.inputs["states"].new_empty(shape, dtype=dtype)

    def _share(self, names: str, *shape: int, dtype: torch.dtype | None = None) -> None:
        """Allocate tensors that all steps share; `names` are separated by spaces."""
        self.whole |= {name: self._new(*shape, dtype=dtype) for name in names.split()}

    def _by_step(self, names: str, *shape: int, dtype: torch.dtype | None = None) -> None:
        """Allocate tensors of each step; without a backward pass, all steps have the same ones."""
        steps = self.settings.max_steps
        for name in names.split():
            x = self._new(steps if self.settings.learns else 1, *shape, dtype=dtype)
            self.steps[name] = x.expand(steps, *shape)

    def _attentions(self) -> list[tuple[str, int, int]]:
        """Return the prefix of each attention layer, its heads, and the features of all of them."""
        names = zip(("", "cross_"), self.settings.heads, strict=False)
        return [(x, heads, self.inputs[f"{x}output_weight"].shape[1]) for x, heads in names]

    def _allocate(self) -> None:
        size, width, steps = self.size, self.width, self.settings.max_steps
        self.block = max(1, min(32, 2048 // padded(width)))  # rows of a tile of whole rows
        short, wide = torch.int32, torch.float32
        self._share("halted settled", size, dtype=short)
        self._share("spent remainder", size, dtype=wide)
        self._share("out", size, width)
        self._share("going", steps + 1, size // GROUP + 1, dtype=short)
        self._share("errors", size // self.block + 1, dtype=short)
        sizes = {"nodes": size, "before": size + ALIGNED, "active": ALIGNED, "number": ALIGNED}
        self.steps |= {name: self._new(steps, n, dtype=short) for name, n in sizes.items()}
        for name in self.norms:
            self._by_step(name, size, width)
            self._by_step(f"stats_{name}", size, 2, dtype=wide)
        for prefix, heads, feats in self._attentions():
            self._by_step(f"{prefix}query {prefix}mixed", size, feats, dtype=self.work)
            self._by_step(f"{prefix}softmax", size, heads, 2, dtype=wide)
        self._by_step("table", size, 2 * self.steps["query"].shape[2], dtype=self.work)
        self._by_step("inner", size, len(self.inputs["first_weight"]), dtype=self.work)
        self._by_step("share", size, dtype=wide)

    def _allocate_gradients(self) -> None:
        size, width, given, wide = self.size, self.width, self.inputs, torch.float32
        steps, self.programs = self.settings.max_steps, min(PROGRAMS, -(-size // self.block))
        self._share("to_out to_states passed", size, width)
        self._share("to_remainder to_spent", size, dtype=wide)
        for name in ("to_out", "to_remainder"):  # of the first backward pass, see `Lease.run`
            self.whole[name].zero_()
        crossed = ["cross_query"] * self.crosses
        for name in [*[*self.norms][1:], "query", "table", "inner", *crossed]:
            self.steps[f"to_{name}"] = torch.empty_like(self.steps[name])
        for prefix, heads, feats in self._attentions():
            self._share(f"{prefix}to_mixed", size, feats, dtype=self.work)
            self._share(f"{prefix}delta", size, heads, dtype=wide)
        if "encoded" in given:
            self.whole["to_encoded"] = torch.empty_like(given["encoded"])
        if "encodings" in given:
            self._share("to_encodings", size, width, dtype=wide)
        if "unit" in given:
            self._by_step("to_logit", size, dtype=wide)
            self.parts["unit"] = self._new(self.programs, width + 1, dtype=wide)
        for norm in filter(None, self.norms.values()):
            self._share(f"{norm}_parts", self.programs, 2, width, dtype=wide)
            for i, name in enumerate(("weight", "bias")):
                self.parts[f"{norm}_norm_{name}"] = self.whole[f"{norm}_parts"][:, i]
        for name in self.products:
            weight = given[f"{name}_weight"]
            tiles = product_tiles(weight.shape[1], len(weight), self.work)
            by_tile = PROGRAMS // math.prod(grid_of(weight, tiles))
            parts = max(1, min(by_tile, -(-size // tiles.block_m)))
            self.parts[f"{name}_weight"] = self._new(parts, *weight.shape, dtype=wide)
            self.parts[f"{name}_bias"] = self._new(parts, steps, len(weight), dtype=wide)

    # Launches.

    def _shared(self) -> Any:
        """Return the tuple `Shared` of the kernels for rows."""
        known: dict[str, Any] = vars(self.settings) | {"width": self.width, "group": GROUP}
        known |= {"block_m": self.block, "block_w": padded(self.width)}
        known = {name: constant(x) for name, x in known.items()}
        known |= {"size": self.size, "to_unit": self.parts.get("unit"), **self.inputs, **self.whole}
        return named(Shared, known)

    def _launch(self, kernel: Any, t: int, grid: tuple[int, ...], **own: Any) -> Launch:
        """Return a launch in step `t`; `own` are its arguments beside those of the step."""
        last, tiles = self.settings.max_steps, own.get("tiles")
        known = {"shared": self.shared, "now": self._step(t), "step": t, "last_step": last}
        known |= {"is_first": t == 1, "is_last": t == last, **own}
        return launch_of(kernel, grid, known if tiles is None else known | with_options(tiles))

    def _step(self, t: int) -> Any:
        return named(Step, {name: x[t - 1] for name, x in self.steps.items()})

    def _next_number(self, t: int) -> Tensor | None:
        """Return the number of active rows in step `t + 1`, on the device; None after the last."""
        return None if t == self.settings.max_steps else self.steps["number"][t]

    # In the following, `at` is the index of a step, or `ALL`.

    def _norm(self, value: str, at: Any) -> Norm | None:
        """Return the LayerNorm of a sum, or None if it has none."""
        norm = self.norms.get(value)
        if norm is None:
            return None
        scale, shift = (self.inputs[f"{norm}_norm_{x}"] for x in ("weight", "bias"))
        eps = self.settings.eps[NORMS.index(norm)]
        return Norm(self.steps[f"stats_{value}"][at], scale, shift, eps)

    def _drop(self, place: str, at: Any) -> Dropout | None:
        """Return the dropout in one of `PLACES`; there is none elsewhere."""
        index = PLACES.index(place) if place in PLACES else 0
        p = self.settings.dropout[index] if place in PLACES else 0.0
        return dropout_of(p, self.inputs["seeds"][at, index, 0] if p else None)

    def _read(self, name: str, at: Any) -> Operand:
        """Return the rows that are multiplied by a weight."""
        value = self.reads[name]
        x = operand(self.steps[value][at], norm=self._norm(value, at))
        if name == "last":
            activation = constant(self.settings.activation)
            x = x._replace(activation=activation, drop=self._drop("inner", at))
        return x

    def _written(self, name: str, at: Any, prefix: str = "") -> Operand:
        """Return the result of a product with a weight, or with the prefix "to_" its gradient."""
        table = self.steps[f"{prefix}table"][at] if name == "joint" else None
        drop = self._drop(name, at) if prefix else None
        return operand(self.steps[prefix + self.writes[name]][at], table, drop=drop)

    def _multiply(self, name: str, t: int) -> Launch:
        """Return the launch that multiplies a weight, and adds what is beside it."""
        at, bias, residual = t - 1, self.inputs.get(f"{name}_bias"), NO_OPERAND
        if name in self.beside:
            value = self.beside[name]
            norm = self._norm(value, at) if self.settings.norm == "post" else None
            residual = operand(self.steps[value][at], norm=norm)
        more = {"drop": self._drop(name, at), "residual": residual}
        row = None if bias is None else bias[min(t, len(bias)) - 1]
        x, out = self._read(name, at), self._written(name, at)
        return self._product(name, t, x=x, out=out, bias=row, **more)

    def _pass(self, name: str, t: int, to_x: Tensor) -> Launch:
        """Return the launch that passes a gradient through a weight."""
        hidden = self._read(name, t - 1) if name == "last" else NO_OPERAND
        more = {"hidden": hidden, "drop": hidden.drop, "residual": NO_OPERAND}
        x, out = self._written(name, t - 1, "to_"), operand(to_x)
        return self._product(name, t, x=x, out=out, turned=True, **more)

    def _product(self, name: str, t: int, **own: Any) -> Launch:
        """Return the launch of a product with a weight, which is transposed if `turned`."""
        now, outer = self._step(t), own["out"].width.value
        tiles = product_tiles(own["x"].width.value, outer, self.work)
        own = {"bias": None, "hidden": NO_OPERAND, "turned": False, "nodes": now.nodes, **own}
        own |= {"weight": self.inputs[f"{name}_weight"], "active": now.active}
        own["number"] = now.number if name == "joint" else now.active
        grid = -(-self.size // tiles.block_m), -(-outer // tiles.block_n)
        return self._launch(product, t, grid, tiles=tiles, **own)

    def _attend(self, t: int, prefix: str = "", *, backward: bool = False) -> list[Launch]:
        """Return the launches of self-attention, or with the prefix "cross_" of cross-attention."""
        settings, given, whole = self.settings, self.inputs, self.whole
        steps = {name: x[t - 1] for name, x in self.steps.items()}
        _, heads, feats = self._attentions()[bool(prefix)]
        width = feats // heads
        # Without a backward pass, a step replaces the rows that it stores.
        table = given["encoded"] if prefix else self.steps["table"][0]
        query = steps[f"{prefix}query"].view(-1, heads, width)
        tensors = [query, *table.view(-1, 2, heads, width).unbind(1)]
        own: dict[str, Any] = {"rows": Rows(steps["nodes"], steps["before"], steps["active"])}
        own |= {"scale": width**-0.5, "drop": self._drop(f"{prefix}attention", t - 1)}
        if settings.learns:
            settled = None if prefix else whole["settled"]
            own |= {"settled": settled, "stored_size": len(table)}
        known: dict[str, Any] = {"step": t, "next_number": self._next_number(t)}
        known |= {"out": steps[f"{prefix}mixed"], "softmax": steps[f"{prefix}softmax"]}
        if backward:
            to_table = whole["to_encoded"] if prefix else self.steps["to_table"][0]
            known["to_key"], known["to_value"] = to_table.view(-1, 2, heads, width).unbind(1)
            known |= {"to_out": whole[f"{prefix}to_mixed"], "delta": whole[f"{prefix}delta"]}
            known |= {"to_query": steps[f"to_{prefix}query"], "to_bias": None}
        return launches_of(tensors, edges_from(given, prefix), known, **own)

    def _forward(self, t: int) -> list[Launch]:
        grid, signals = (self.size // self.block + 1,), self.inputs.get("signals")
        own: dict[str, Any] = {"signal": None if signals is None else signals[t - 1]}
        own["last"] = self._step(t - 1) if t > 1 else None
        end = self._launch(finish, t, grid, norm=self._norm("sums", t - 1))
        return [self._launch(advance, t, grid, **own), *self._update(t), end]

    def _update(self, t: int) -> list[Launch]:
        """Return the launches from the input of a step to its last sum."""
        launches = [self._multiply("joint", t), *self._attend(t), self._multiply("output", t)]
        if self.crosses:
            launches += [self._multiply("cross_query", t), *self._attend(t, "cross_")]
            launches += [self._multiply("cross_output", t)]
        return [*launches, self._multiply("first", t), self._multiply("last", t)]

    def _backward(self, t: int) -> list[Launch]:
        launches = [
            self._end(finish_backward, t, "sums"),
            self._pass("last", t, self.steps["to_inner"][t - 1]),
            *self._through(t, "first", "sums"),
        ]
        if self.crosses:
            launches += [
                self._pass("cross_output", t, self.whole["cross_to_mixed"]),
                *self._attend(t, "cross_", backward=True),
                *self._through(t, "cross_query", "crossed"),
            ]
        return [
            *launches,
            self._pass("output", t, self.whole["to_mixed"]),
            *self._attend(t, backward=True),
            *self._through(t, "joint", "middle"),
        ]

    def _through(self, t: int, name: str, after: str) -> list[Launch]:
        """Return launches for the gradient of a sum, which a weight and the sum `after` it read."""
        value = self.reads[name]
        to_rows = None if value == "rows" else self.steps[f"to_{value}"][t - 1]
        own = {"residual": self.steps[f"to_{after}"][t - 1], "to_rows": to_rows}
        return [
            self._pass(name, t, self.whole["passed"]),
            self._end(rows_backward, t, value, **own),
        ]

    def _end(self, kernel: Any, t: int, value: str, **own: Any) -> Launch:
        """Return a launch for the gradient of a sum and of its LayerNorm."""
        own |= {"next_number": self._next_number(t), "norm": self._norm(value, t - 1)}
        own |= {"norm_parts": self.whole.get(f"{self.norms[value]}_parts")}
        own |= {"grad": self.whole["passed"], "sums": self.steps[value][t - 1]}
        return self._launch(kernel, t, (self.programs,), **own)

    def _weight_gradient(self, name: str) -> Launch:
        weight, to_weight = self.inputs[f"{name}_weight"], self.parts[f"{name}_weight"]
        tiles = product_tiles(weight.shape[1], weight.shape[0], self.work)._replace(num_stages=2)
        own: dict[str, Any] = {name: self.steps[name] for name in ("nodes", "active")}
        own["number"] = self.steps["number" if name == "joint" else "active"]
        own |= {"x": self._read(name, ALL), "grad": self._written(name, ALL, "to_")}
        own |= {"weight": weight, "tiles": tiles}
        own |= {"to_weight": to_weight, "to_bias": self.parts[f"{name}_bias"], "size": self.size}
        own |= {"steps": self.settings.max_steps, "places": 2 * len(PLACES)}
        return self._launch(weight_gradient, 1, (*grid_of(weight, tiles), len(to_weight)), **own)

    def gradients(self, inputs: Tensors) -> dict[str, Tensor]:
        """Return the gradients of the inputs after the launches of the backward pass."""
        found = {}
        for name in ("states", "encodings", "encoded"):
            if name in inputs and f"to_{name}" in self.whole:
                found[name] = self.whole[f"to_{name}"][: len(inputs[name])].clone()
        found |= self.weights.gradients()
        return {name: x.to(inputs[name].dtype) for name, x in found.items()}


def copy_by_dtype(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy tensors to tensors of the same dtype: one launch for each dtype."""
    groups: dict[torch.dtype, list[int]] = {}
    for place, x in enumerate(sources):
        groups.setdefault(x.dtype, []).append(place)
    for places in groups.values():
        torch._foreach_copy_([targets[i] for i in places], [sources[i] for i in places])


def operand(x: Tensor, by_node: Tensor | None = None, **more: Any) -> Operand:
    """Return rows for a product; `by_node` has more columns, by node."""
    split = x.shape[-1]
    width = split if by_node is None else split + by_node.shape[-1]
    return Operand(x, constant(split), constant(width), by_node=by_node, **more)


def grid_of(weight: Tensor, tiles: TileSizes) -> tuple[int, int]:
    """Return the number of tiles of a weight's gradient, along both axes."""
    outer, inner = weight.shape
    return -(-outer // tiles.block_n), -(-inner // tiles.block_k)


def product_tiles(inner: int, outer: int, dtype: torch.dtype) -> TileSizes:
    """Return the tiles of products."""
    block, block_k, num_warps = (128, 64, 8) if dtype.itemsize == 2 else (64, 32, 4)
    block_n = min(block, padded(outer))
    return TileSizes(64, block_n, num_warps, 3, block_k=min(block_k, padded(inner)))
