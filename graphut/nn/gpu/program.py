"""A recurrence as a fixed sequence of kernel launches, whatever nodes halt at which step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graphut.attention.triton.function import SPLIT, kernels_of
from graphut.attention.triton.inputs import (
    Dropout,
    KernelInputs,
    Launch,
    Rows,
    Stored,
    constant,
    dropout_of,
    launch_of,
    named,
    padded,
)
from graphut.attention.triton.interval import IntervalTables
from graphut.nn.gpu.arguments import (
    Gradients,
    Matrix,
    Norm,
    Operand,
    Shared,
    Step,
    Tiles,
)
from graphut.nn.gpu.kernels.products import product, weight_gradient
from graphut.nn.gpu.kernels.rows import advance, finish, finish_backward, rows_backward
from graphut.nn.gpu.settings import NORMS, PLACES, Settings

GROUP = 1024  # nodes whose active ones are counted together
ALIGNED = 4  # int32 in 16 bytes, for which one variant of a kernel is compiled
PROGRAMS = 256  # of a kernel that loops over rows, or over parts of a weight's gradient
PRODUCT = {"num_warps": 4, "num_stages": 3}  # options of a launch
ALL = slice(None)  # all steps
Tensors = Mapping[str, Tensor]  # by their names in `graphut.nn.gpu.device_loop` and in kernels


class Program:
    """The launches of a recurrence, forward and backward, and the tensors that they read and write.

    All tensors have the full size, and the launches read the numbers of sources, of destinations
    and of active nodes on the device. `inputs` are the tensors that `load` fills. `layouts` are the
    edges of self-attention and of cross-attention, or None if the edges are among the inputs.
    """

    def __init__(self, settings: Settings, inputs: Tensors, layouts: Sequence[Any]) -> None:
        self.settings, self.layouts, self.inputs = settings, layouts, inputs
        self.size, self.width = inputs["states"].shape
        self.work = inputs["output_weight"].dtype  # of factors of matrix products
        self.kept = inputs["states"].dtype  # of states
        # The sums in a step, each with the LayerNorm that is applied to it.
        sums = ["rows", "middle", *["crossed"] * settings.crosses, "sums"]
        norms = ["attention", *["cross"] * settings.crosses, "transition"]
        after: list[str | None] = [None, *norms] if settings.norm == "post" else [*norms, None]
        self.norms = dict(zip(sums, after if settings.norm else [None] * 4, strict=False))
        # What each weight is multiplied by, the result, and what is added to it.
        self.reads = {"joint": "rows", "output": "mixed", "last": "inner", "first": sums[-2]}
        self.reads |= {"cross_query": "middle", "cross_output": "cross_mixed"}
        self.writes = {"joint": "query", "output": "middle", "last": "sums", "first": "inner"}
        self.writes |= {"cross_query": "cross_query", "cross_output": "crossed"}
        self.beside = {"output": "rows", "cross_output": "middle", "last": sums[-2]}
        self.whole: dict[str, Tensor] = {}  # tensors that all steps share
        self.steps: dict[str, Tensor] = {}  # tensors with a row for each step
        self.parts: dict[str, Tensor] = {}  # sums of programs, which `gradients` adds up
        self._allocate()
        self.shared = self._shared()
        steps = range(1, settings.max_steps + 1)
        self.forward = [launch for t in steps for launch in self._forward(t)]
        self.backward: list[Launch] = []
        if settings.learns:
            self._allocate_gradients()
            self.backward = [launch for t in reversed(steps) for launch in self._backward(t)]
            weights = [name for name in self.inputs if name.endswith("_weight")]
            self.backward += [self._weight_gradient(x.removesuffix("_weight")) for x in weights]
        kinds = (self.inputs, self.whole, self.steps, self.parts)
        self.nbytes = sum(x.nbytes for kind in kinds for x in kind.values())  # at most

    def load(self, inputs: Tensors) -> None:
        """Copy the inputs of a call; those by node may have fewer rows."""
        own = [x[: len(inputs[name])] for name, x in self.inputs.items()]
        torch._foreach_copy_(own, [inputs[name] for name in self.inputs])

    def load_gradients(self, to_out: Tensor, to_remainder: Tensor) -> None:
        """Copy the gradients of the outputs, and prepare the backward pass."""
        own = [self.whole["to_out"], self.whole["to_remainder"]]
        torch._foreach_copy_([x[: len(to_out)] for x in own], [to_out, to_remainder])
        if "to_encodings" in self.whole:
            self.whole["to_encodings"].zero_()

    # Tensors.

    def _new(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return self.inputs["states"].new_empty(shape, dtype=dtype)

    def _by_step(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Allocate a tensor for each step; all steps share it without a backward pass."""
        steps = self.settings.max_steps
        if self.settings.learns:
            return self._new(steps, *shape, dtype=dtype)
        return self._new(1, *shape, dtype=dtype).expand(steps, *shape)

    def _attentions(self) -> dict[str, int]:
        """Return the prefix of each attention layer, and the features of all its heads."""
        prefixes = ["", *["cross_"] * self.settings.crosses]
        return {prefix: self.inputs[f"{prefix}output_weight"].shape[1] for prefix in prefixes}

    def _allocate(self) -> None:
        size, width, steps, settings = self.size, self.width, self.settings.max_steps, self.settings
        self.block, _ = row_sizes(width)
        short, wide = torch.int32, torch.float32
        for name in ("halted", "settled", "closed"):
            self.whole[name] = self._new(size, dtype=short)
        for name in ("spent", "remainder"):
            self.whole[name] = self._new(size, dtype=wide)
        self.whole["out"] = self._new(size, width)
        self.whole["going"] = self._new(steps + 1, size // GROUP + 1, dtype=short)
        self.whole["errors"] = self._new(size // self.block + 1, dtype=short)
        for name, length in (("before", size + ALIGNED), ("nodes", size)):
            self.steps[name] = self._new(steps, length, dtype=short)
        for name in ("active", "number"):
            self.steps[name] = self._new(steps, ALIGNED, dtype=short)
        for name in self.norms:
            self.steps[name] = self._by_step(size, width)
            self.steps[f"stats_{name}"] = self._by_step(size, 2, dtype=wide)
        for (prefix, feats), heads in zip(self._attentions().items(), settings.heads, strict=True):
            rounds = settings.learns and self.work != torch.float32
            for name in ("query", "mixed", *["rest"] * rounds):
                self.steps[prefix + name] = self._by_step(size, feats, dtype=self.work)
            self.steps[f"{prefix}softmax"] = self._by_step(size, heads, 2, dtype=wide)
        self.steps["table"] = self._by_step(size, 2 * self._attentions()[""], dtype=self.work)
        hidden = len(self.inputs["first_weight"])
        self.steps["inner"] = self._by_step(size, hidden, dtype=self.work)
        self.steps["share"] = self._by_step(size, dtype=wide)

    def _allocate_gradients(self) -> None:
        size, width, given, wide = self.size, self.width, self.inputs, torch.float32
        steps = self.settings.max_steps
        for name in ("to_out", "to_states", "passed"):
            self.whole[name] = self._new(size, width)
        for name in ("to_remainder", "to_spent"):
            self.whole[name] = self._new(size, dtype=wide)
        for name in [*self.norms][1:]:
            self.steps[f"to_{name}"] = self._by_step(size, width)
        for name in ("query", "table", "inner", *["cross_query"] * self.settings.crosses):
            self.steps[f"to_{name}"] = torch.empty_like(self.steps[name])
        for (prefix, feats), heads in zip(
            self._attentions().items(), self.settings.heads, strict=True
        ):
            self.whole[f"{prefix}to_mixed"] = self._new(size, feats, dtype=self.work)
            self.whole[f"{prefix}delta"] = self._new(size, heads, dtype=wide)
        if "encoded" in given:
            self.whole["to_encoded"] = torch.empty_like(given["encoded"])
        if "encodings" in given:
            self.whole["to_encodings"] = self._new(size, width, dtype=wide)
        self.programs = min(PROGRAMS, -(-size // self.block))
        if "signals" in given:
            self.parts["signals"] = self._new(steps, self.programs, width, dtype=wide)
        if "unit" in given:
            self.steps["to_logit"] = self._by_step(size, dtype=wide)
            self.parts["unit"] = self._new(self.programs, width + 1, dtype=wide)
        for norm in filter(None, self.norms.values()):
            self.parts[norm] = self._new(self.programs, 2, width, dtype=wide)
        for name in [key for key in given if key.endswith("_weight")]:
            outer, inner = given[name].shape
            tiles = product_tiles(inner, outer, self.work)
            by_tile = PROGRAMS // math.prod(grid_of(given[name], tiles))
            parts = max(1, min(by_tile, -(-size // tiles.block_m.value)))
            self.parts[name] = self._new(parts, outer, inner, dtype=wide)
            bias = name.replace("_weight", "_bias")
            self.parts[bias] = self._new(parts, steps, outer, dtype=wide)

    # Launches.

    def _shared(self) -> Any:
        """Return the tuple `Shared` of the kernels for rows."""
        block_m, block_w = row_sizes(self.width)
        known: dict[str, Any] = vars(self.settings) | {"width": self.width, "group": GROUP}
        known |= {"block_m": block_m, "block_w": block_w}
        known = {name: constant(x) for name, x in known.items()}
        known |= {"size": self.size, **self.inputs, **self.whole}
        return named(Shared, known)

    def _launch(self, kernel: Any, t: int, grid: tuple[int, ...], **own: Any) -> Launch:
        """Return a launch in step `t`; `own` are its arguments beside those of the step."""
        last = self.settings.max_steps
        known = {"shared": self.shared, "now": self._step(t), "step": t, "last_step": last}
        known |= {"is_first": t == 1, "is_last": t == last, **own}
        return launch_of(kernel, grid, known)

    def _step(self, t: int) -> Step:
        return Step(*(self.steps[name][t - 1] for name in Step._fields))

    # In the following, `at` is the index of a step, or `ALL`.

    def _norm(self, value: str, at: Any) -> Norm | None:
        """Return the LayerNorm of a sum, or None if it has none."""
        norm = self.norms.get(value)
        if norm is None:
            return None
        scale, shift = (self.inputs[f"{norm}_{x}"] for x in ("scale", "shift"))
        eps = self.settings.eps[NORMS.index(norm)]
        return Norm(self.steps[f"stats_{value}"][at], scale, shift, eps)

    def _drop(self, place: str, at: Any) -> Dropout | None:
        """Return the dropout in one of `PLACES`; there is none elsewhere."""
        index = PLACES.index(place) if place in PLACES else 0
        p = self.settings.dropout[index] if place in PLACES else 0.0
        return dropout_of(p, self.inputs["seeds"][at, index, 0] if p else None)

    def _read(self, name: str, at: Any) -> Operand:
        """Return what a weight is multiplied by."""
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
        at, bias, residual = t - 1, self.inputs.get(f"{name}_bias"), None
        if name in self.beside:
            value = self.beside[name]
            norm = self._norm(value, at) if self.settings.norm == "post" else None
            residual = operand(self.steps[value][at], norm=norm)
        more: dict[str, Any] = {"bias": None if bias is None else bias[min(t, len(bias)) - 1]}
        more |= {"drop": self._drop(name, at), "residual": residual, "hidden": None}
        return self._product(name, t, self._read(name, at), self._written(name, at), **more)

    def _pass(self, name: str, t: int, to_x: Tensor, residual: Tensor | None = None) -> Launch:
        """Return the launch that passes a gradient through a weight, and adds `residual`."""
        more: dict[str, Any] = {"bias": None, "drop": None, "hidden": None}
        if name == "last":
            more["hidden"] = self._read(name, t - 1)
            more["drop"] = more["hidden"].drop
        more["residual"] = None if residual is None else operand(residual)
        grad = self._written(name, t - 1, "to_")
        return self._product(name, t, grad, operand(to_x), turned=True, **more)

    def _product(
        self, name: str, t: int, x: Operand, out: Operand, *, turned: bool = False, **more: Any
    ) -> Launch:
        """Return the launch of a product with a weight, which is transposed if `turned`."""
        weight, now = self.inputs[f"{name}_weight"], self._step(t)
        strides = (weight.shape[1], 1) if turned else (1, weight.shape[1])
        more |= {"x": x, "weight": Matrix(weight, *strides), "out": out}
        more |= {"nodes": now.nodes, "active": now.active}
        more["number"] = now.number if name == "joint" else now.active
        tiles = product_tiles(x.width.value, out.width.value, self.work)
        grid = -(-self.size // tiles.block_m.value), -(-out.width.value // tiles.block_n.value)
        return self._launch(product, t, grid, tiles=tiles, **PRODUCT, **more)

    def _attend(self, t: int, prefix: str = "", *, backward: bool = False) -> list[Launch]:
        """Return the launches of self-attention, or with the prefix "cross_" of cross-attention."""
        settings, given, whole = self.settings, self.inputs, self.whole
        steps = {name: x[t - 1] for name, x in self.steps.items()}
        heads, layout = settings.heads[bool(prefix)], self.layouts[bool(prefix)]
        by_head = heads, self._attentions()[prefix] // heads
        tables = None
        if layout is None:
            fields: Any = {name: given.get(prefix + name) for name in IntervalTables._fields}
            tables = IntervalTables(**fields)
        # Without a backward pass, a step replaces the rows that it stores.
        table = given["encoded"] if prefix else self.steps["table"][0]
        settled = given["cross_settled"] if prefix else whole["settled"]
        key, value = table.view(-1, 2, *by_head).unbind(1)
        inputs = KernelInputs(
            layout=layout,
            rows=Rows(steps["nodes"], steps["before"], steps["active"]),
            query=steps[f"{prefix}query"].view(-1, *by_head),
            key=key,
            value=value,
            edge_bias=None,
            scale=by_head[1] ** -0.5,
            drop=self._drop(f"{prefix}attention", t - 1),
            split=SPLIT,
            stored=Stored(settled, len(table)) if settings.learns else None,
            step=t,
            last_step=settings.max_steps,
            tables=tables,
        )
        names = {"out": "mixed", "rest": "rest", "softmax": "softmax"}
        results = {name: steps.get(prefix + kept) for name, kept in names.items()}
        if not backward:
            return kernels_of(inputs).forward(inputs, results)
        to_table = whole["to_encoded"] if prefix else self.steps["to_table"][0]
        results["to_key"], results["to_value"] = to_table.view(-1, 2, *by_head).unbind(1)
        results |= {"to_out": whole[f"{prefix}to_mixed"], "delta": whole[f"{prefix}delta"]}
        results |= {"to_query": steps[f"to_{prefix}query"], "to_bias": None}
        return kernels_of(inputs).backward(inputs, results)

    def _forward(self, t: int) -> list[Launch]:
        grid, signals = (self.size // self.block + 1,), self.inputs.get("signals")
        own: dict[str, Any] = {"signal": None if signals is None else signals[t - 1]}
        own["last"] = self._step(t - 1) if t > 1 else None
        end = self._launch(finish, t, grid, norm=self._norm("sums", t - 1))
        return [self._launch(advance, t, grid, **own), *self._update(t), end]

    def _update(self, t: int) -> list[Launch]:
        """Return the launches from the input of a step to its last sum."""
        launches = [self._multiply("joint", t), *self._attend(t), self._multiply("output", t)]
        if self.settings.crosses:
            launches += [self._multiply("cross_query", t), *self._attend(t, "cross_")]
            launches += [self._multiply("cross_output", t)]
        return [*launches, self._multiply("first", t), self._multiply("last", t)]

    def _backward(self, t: int) -> list[Launch]:
        steps, whole = {name: x[t - 1] for name, x in self.steps.items()}, self.whole
        launches = [
            self._end(finish_backward, t, "sums"),
            self._pass("last", t, steps["to_inner"]),
            *self._through(t, "first", steps["to_sums"]),
        ]
        if self.settings.crosses:
            launches += [
                self._pass("cross_output", t, whole["cross_to_mixed"]),
                *self._attend(t, "cross_", backward=True),
                *self._through(t, "cross_query", steps["to_crossed"]),
            ]
        own = {"residual": steps["to_middle"], "to_rows": None}
        return [
            *launches,
            self._pass("output", t, whole["to_mixed"]),
            *self._attend(t, backward=True),
            self._pass("joint", t, whole["passed"]),
            self._end(rows_backward, t, "rows", **own),
        ]

    def _through(self, t: int, name: str, to_next: Tensor) -> list[Launch]:
        """Return launches for the gradient of a sum, which a weight and the next sum read."""
        value, pre = self.reads[name], self.settings.norm == "pre"
        to_value = self.steps[f"to_{value}"][t - 1]
        if self.norms[value] is None:
            return [self._pass(name, t, to_value, to_next)]
        own = {"residual": to_next if pre else None, "to_rows": to_value}
        return [
            self._pass(name, t, self.whole["passed"], None if pre else to_next),
            self._end(rows_backward, t, value, **own),
        ]

    def _end(self, kernel: Any, t: int, value: str, **own: Any) -> Launch:
        """Return a launch for the gradient of a sum and of its LayerNorm."""
        known: dict[str, Any] = self.whole | {name: x[t - 1] for name, x in self.steps.items()}
        signals = self.parts.get("signals")
        known |= {"to_unit": self.parts.get("unit")}
        known |= {"to_signals": None if signals is None else signals[t - 1]}
        if t < self.settings.max_steps:
            known["next_number"] = self.steps["number"][t]
        own |= {"grads": named(Gradients, known)}
        own |= {
            "norm": self._norm(value, t - 1),
            "norm_parts": self.parts.get(self.norms[value] or ""),
        }
        own |= {"grad": self.whole["passed"], "sums": self.steps[value][t - 1]}
        return self._launch(kernel, t, (self.programs,), **own)

    def _weight_gradient(self, name: str) -> Launch:
        weight, to_weight = self.inputs[f"{name}_weight"], self.parts[f"{name}_weight"]
        tiles = product_tiles(weight.shape[1], weight.shape[0], self.work)
        own: dict[str, Any] = {name: self.steps[name] for name in ("nodes", "active")}
        own["number"] = self.steps["number" if name == "joint" else "active"]
        own |= {"x": self._read(name, ALL), "grad": self._written(name, ALL, "to_")}
        own |= {"weight": Matrix(weight, 1, weight.shape[1]), "tiles": tiles}
        own |= {"to_weight": to_weight, "to_bias": self.parts[f"{name}_bias"], "size": self.size}
        own |= {"steps": self.settings.max_steps, "places": 2 * len(PLACES), **PRODUCT}
        return self._launch(weight_gradient, 1, (*grid_of(weight, tiles), len(to_weight)), **own)

    def gradients(self, inputs: Tensors) -> dict[str, Tensor]:
        """Return the gradients of the inputs after the launches of the backward pass."""
        found = {}
        for name in ("states", "encodings", "encoded"):
            if name in inputs and f"to_{name}" in self.whole:
                found[name] = self.whole[f"to_{name}"][: len(inputs[name])].clone()
        for name, parts in self.parts.items():
            sums = parts.sum(1 if name == "signals" else 0)
            if name.endswith("_bias") and len(inputs.get(name, ())) == 1:
                sums = sums.sum(0, keepdim=True)
            if name in self.norms.values():
                found[f"{name}_scale"], found[f"{name}_shift"] = sums.unbind()
            elif name in inputs:
                found[name] = sums
        return {name: x.to(inputs[name].dtype) for name, x in found.items()}


def operand(x: Tensor, by_node: Tensor | None = None, **more: Any) -> Operand:
    """Return rows for a product; `by_node` has more columns, by node."""
    split = x.shape[-1]
    width = split if by_node is None else split + by_node.shape[-1]
    return Operand(x, constant(split), constant(width), by_node, **more)


def row_sizes(width: int) -> tuple[int, int]:
    """Return rows and columns of a tile in kernels whose programs read whole rows."""
    block_w = padded(width)
    return max(1, min(32, 2048 // block_w)), block_w


def grid_of(weight: Tensor, tiles: Tiles) -> tuple[int, int]:
    """Return the number of tiles of a weight's gradient, along both axes."""
    outer, inner = weight.shape
    return -(-outer // tiles.block_n.value), -(-inner // tiles.block_k.value)


def product_tiles(inner: int, outer: int, dtype: torch.dtype) -> Tiles:
    """Return the tiles of products."""
    half = dtype.itemsize == 2
    block_n = min(128 if half else 64, padded(outer))
    block_k = min(64 if half else 32, padded(inner))
    return Tiles(*map(constant, (64, block_n, block_k, "tf32x3")))
