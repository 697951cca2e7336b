"""A recurrence as a fixed sequence of kernel launches, whatever nodes halt at which step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graphut.attention.dropout import signed_threshold
from graphut.attention.triton.function import SPLIT, kernels_of
from graphut.attention.triton.inputs import ActiveRows, KernelInputs, Launch, TableSteps, padded
from graphut.attention.triton.interval import IntervalTables
from graphut.attention.triton.sizes import FUSED
from graphut.nn.gpu.kernels.products import product, weight_gradient
from graphut.nn.gpu.kernels.rows import advance, finish, finish_backward, rows_backward
from graphut.nn.gpu.settings import NORMS, PLACES, Settings

GROUP = 1024  # nodes whose active ones are counted together
ALIGNED = 4  # int32 in 16 bytes, for which one variant of a kernel is compiled
PROGRAMS = 256  # of a kernel that loops over rows, or over parts of a weight's gradient
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
        self.before_last = sums[-2]
        self.whole: dict[str, Tensor] = {}  # tensors that all steps share
        self.steps: dict[str, Tensor] = {}  # tensors with a row for each step
        self.parts: dict[str, Tensor] = {}  # sums of programs, which `gradients` adds up
        self._allocate()
        steps = range(1, settings.max_steps + 1)
        self.forward = [launch for t in steps for launch in self._forward(t)]
        self.backward: list[Launch] = []
        if settings.learns:
            self._allocate_gradients()
            self.backward = [launch for t in reversed(steps) for launch in self._backward(t)]
            self.backward += self._weight_gradients()
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
        self.block = row_sizes(width)["block_m"]
        self.groups = size // GROUP + 1
        short, wide = torch.int32, torch.float32
        for name in ("halted", "settled", "closed"):
            self.whole[name] = self._new(size, dtype=short)
        for name in ("spent", "remainder"):
            self.whole[name] = self._new(size, dtype=wide)
        self.whole["out"] = self._new(size, width)
        self.whole["going"] = self._new(steps + 1, self.groups, dtype=short)
        self.whole["errors"] = self._new(size // self.block + 1, dtype=short)
        for name, length in (("before", size + ALIGNED), ("nodes", size)):
            self.steps[name] = self._new(steps, length, dtype=short)
        for name in ("active", "count"):
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
            sizes = product_sizes(inner, outer, self.work)
            tiles = -(-outer // sizes["block_n"]) * -(-inner // sizes["block_k"])
            parts = max(1, min(PROGRAMS // tiles, -(-size // sizes["block_m"])))
            self.parts[name] = self._new(parts, outer, inner, dtype=wide)
            bias = name.replace("_weight", "_bias")
            self.parts[bias] = self._new(parts, steps, outer, dtype=wide)

    # Launches.

    def _launch(self, kernel: Any, grid: tuple[int, ...], t: int, **own: Any) -> Launch:
        """Return a launch in step `t` whose arguments are `own`, or tensors of the same names."""
        last = self.settings.max_steps
        known = vars(self.settings) | dict(self.inputs) | self.whole
        known |= {name: x[t - 1] for name, x in self.steps.items()}
        known |= {"step": t, "last_step": last, "is_first": t == 1, "is_last": t == last}
        known |= {"size": self.size, "groups": self.groups, "group": GROUP, "lanes": 128}
        known |= {"width": self.width, **row_sizes(self.width), **own}
        arguments = {name: known.get(name) for name in kernel.arg_names}
        options = ("num_warps", "num_stages", *FUSED)
        return Launch(
            kernel, grid, arguments | {name: known[name] for name in options if name in known}
        )

    def _norm(self, value: str, t: int) -> dict[str, Any]:
        """Return the arguments for the LayerNorm of a sum."""
        norm = self.norms[value]
        if norm is None:
            return {"stats": None, "scale": None, "shift": None, "eps": 0.0}
        return {
            "stats": self.steps[f"stats_{value}"][t - 1],
            "scale": self.inputs[f"{norm}_scale"],
            "shift": self.inputs[f"{norm}_shift"],
            "eps": self.settings.eps[NORMS.index(norm)],
        }

    def _residual(self, value: str, t: int) -> dict[str, Any]:
        """Return the arguments that add a sum to a product, after its LayerNorm in post-norm."""
        found = {"residual": self.steps[value][t - 1]}
        if self.settings.norm == "post":
            norm = self._norm(value, t)
            found |= {f"residual_{name}": norm[name] for name in ("stats", "scale", "shift")}
        return found

    def _drop(self, place: str, t: int, prefix: str = "") -> dict[str, Any]:
        """Return the arguments for dropout of what a product writes, or with a prefix of `x`."""
        p = self.settings.dropout[PLACES.index(place)]
        if not p:
            return {}
        found: dict[str, Any] = {"seed": self.inputs["seeds"][t - 1, PLACES.index(place), 0]}
        found |= {"drop_below": signed_threshold(p), "keep": 1.0 / (1.0 - p)}
        return {prefix + name: x for name, x in found.items()}

    def _product(
        self, t: int, x: Tensor, name: str, out: Tensor, *, turned: bool = False, **more: Any
    ) -> Launch:
        """Multiply rows by a weight, or, `turned`, gradients of the results by its transpose."""
        weight = self.inputs[f"{name}_weight"]
        outer, inner = weight.shape
        own: dict[str, Any] = {"outer_stride": inner, "inner_stride": 1}
        bias = self.inputs.get(f"{name}_bias")
        own["bias"] = None if bias is None else bias[min(t, len(bias)) - 1]
        if turned:
            outer, inner = inner, outer
            own = {"outer_stride": 1, "inner_stride": outer}
        own |= {"x": x, "weight": weight, "out": out, "inner": inner, "outer": outer}
        own |= {"count": self.steps["active"][t - 1], "split": inner, "out_split": outer}
        own |= {"activation": "", "slope_of": "", "eps": 0.0}
        sizes = product_sizes(inner, outer, self.work)
        grid = -(-self.size // sizes["block_m"]), -(-outer // sizes["block_n"])
        return self._launch(product, grid, t, **own | sizes | more)

    def _attend(self, t: int, prefix: str = "", *, backward: bool = False) -> list[Launch]:
        """Return the launches of self-attention, or with the prefix "cross_" of cross-attention."""
        settings, given = self.settings, self.inputs
        steps = {name: x[t - 1] for name, x in self.steps.items()}
        heads, layout = settings.heads[bool(prefix)], self.layouts[bool(prefix)]
        by_head = heads, self._attentions()[prefix] // heads
        tables = None
        if layout is None:
            lo, hi, rows, sources = (
                given[prefix + name] for name in ("lo", "hi", "row_blocks", "source_blocks")
            )
            tables = IntervalTables(
                lo, hi, given.get(f"{prefix}row_starts", lo), None, rows, sources
            )
        # Without a backward pass, a step replaces the rows that it stores.
        table = given["encoded"] if prefix else self.steps["table"][0]
        settled = given["cross_settled"] if prefix else self.whole["settled"]
        by_step = (
            TableSteps(settled, len(table), t, settings.max_steps) if settings.learns else None
        )
        key, value = table.view(-1, 2, *by_head).unbind(1)
        drop = self._drop(f"{prefix}attention", t)
        inputs = KernelInputs(
            layout=layout,
            active=ActiveRows(steps["nodes"], self.size, steps["before"], steps["active"]),
            query=steps[f"{prefix}query"].view(-1, *by_head),
            key=key,
            value=value,
            edge_bias=None,
            scale=by_head[1] ** -0.5,
            dropout=settings.dropout[PLACES.index(f"{prefix}attention")],
            seed=drop.get("seed", 0),
            split=SPLIT,
            steps=by_step,
            tables=tables,
        )
        kernels, out = kernels_of(inputs), steps[f"{prefix}mixed"].view(-1, *by_head)
        softmax, rest = steps[f"{prefix}softmax"], steps.get(f"{prefix}rest")
        rest = None if rest is None else rest.view(-1, *by_head)
        if not backward:
            return kernels.forward(inputs, out, rest, softmax)
        to_out = self.whole[f"{prefix}to_mixed"].view(-1, *by_head)
        shared = {"to_out": to_out, "to_out_stride": to_out.stride(0), "softmax": softmax}
        shared["delta"] = self.whole[f"{prefix}delta"]
        to_query = steps[f"to_{prefix}query"].view(-1, *by_head)
        to_table = self.whole["to_encoded"] if prefix else self.steps["to_table"][0]
        to_key, to_value = to_table.view(-1, 2, *by_head).unbind(1)
        of_rows = {"out": out, "rest": rest, "to_bias": None}
        launches = kernels.backward_rows(inputs, to_query, of_rows | shared)
        return launches + kernels.backward_sources(inputs, to_key, to_value, shared)

    def _forward(self, t: int) -> list[Launch]:
        grid = (self.size // self.block + 1,)
        last = {name: x[t - 2] if t > 1 else None for name, x in self.steps.items()}
        signals = self.inputs.get("signals")
        begin = self._launch(
            advance,
            grid,
            t,
            signal=None if signals is None else signals[t - 1],
            before_last=last["before"],
            active_last=last["active"],
        )
        end = self._launch(finish, grid, t, **self._norm("sums", t))
        return [begin, *self._update(t), end]

    def _update(self, t: int) -> list[Launch]:
        """Return the launches from the input of a step to its last sum."""
        steps = {name: x[t - 1] for name, x in self.steps.items()}
        launches = [
            self._product(
                t,
                steps["rows"],
                "joint",
                steps["query"],
                count=steps["count"],
                out_other=steps["table"],
                out_split=self._attentions()[""],
                **self._norm("rows", t),
            ),
            *self._attend(t),
            self._product(
                t,
                steps["mixed"],
                "output",
                steps["middle"],
                **self._residual("rows", t),
                **self._drop("output", t),
            ),
        ]
        if self.settings.crosses:
            norm, more = self._norm("middle", t), self._drop("cross_output", t)
            query, mixed, crossed = (steps[x] for x in ("cross_query", "cross_mixed", "crossed"))
            more |= self._residual("middle", t)
            launches += [
                self._product(t, steps["middle"], "cross_query", query, **norm),
                *self._attend(t, "cross_"),
                self._product(t, mixed, "cross_output", crossed, **more),
            ]
        before = self.before_last
        more = {
            **self._residual(before, t),
            **self._drop("last", t),
            **self._drop("inner", t, "x_"),
        }
        more["activation"] = self.settings.activation
        return [
            *launches,
            self._product(t, steps[before], "first", steps["inner"], **self._norm(before, t)),
            self._product(t, steps["inner"], "last", steps["sums"], **more),
        ]

    def _backward(self, t: int) -> list[Launch]:
        steps, whole = {name: x[t - 1] for name, x in self.steps.items()}, self.whole
        grid, follows = (self.programs,), None
        if t < self.settings.max_steps:
            follows = self.steps["count"][t]
        to_sums, to_inner, to_middle = (steps[f"to_{x}"] for x in ("sums", "inner", "middle"))
        ends: dict[str, Any] = {"unit_parts": self.parts.get("unit"), "count_next": follows}
        ends |= {"norm_parts": self.parts.get(self.norms["sums"] or "")}
        more = {"hidden": steps["inner"], "slope_of": self.settings.activation}
        more |= {**self._drop("last", t, "x_"), **self._drop("inner", t)}
        launches = [
            self._launch(finish_backward, grid, t, **self._norm("sums", t), **ends),
            self._product(t, to_sums, "last", to_inner, turned=True, **more),
            *self._through(t, self.before_last, "first", to_inner, to_sums),
        ]
        if self.settings.crosses:
            mixed, crossed = whole["cross_to_mixed"], steps["to_crossed"]
            more = self._drop("cross_output", t, "x_")
            launches += [
                self._product(t, crossed, "cross_output", mixed, turned=True, **more),
                *self._attend(t, "cross_", backward=True),
                *self._through(t, "middle", "cross_query", steps["to_cross_query"], crossed),
            ]
        more, mixed = self._drop("output", t, "x_"), whole["to_mixed"]
        joint = {"other": steps["to_table"], "split": mixed.shape[1], "count": steps["count"]}
        launches += [
            self._product(t, to_middle, "output", mixed, turned=True, **more),
            *self._attend(t, backward=True),
            self._product(t, steps["to_query"], "joint", whole["passed"], turned=True, **joint),
        ]
        own: dict[str, Any] = {
            "grad": whole["passed"],
            "sums": steps["rows"],
            "residual": to_middle,
        }
        own |= {"norm_parts": self.parts.get(self.norms["rows"] or ""), "count_next": follows}
        if "signals" in self.parts:
            own["signal_parts"] = self.parts["signals"][t - 1]
        if self.settings.reads_input:
            own["logit"] = steps.get("to_logit")
        return [*launches, self._launch(rows_backward, grid, t, **own, **self._norm("rows", t))]

    def _through(
        self, t: int, value: str, name: str, to_out: Tensor, to_next: Tensor
    ) -> list[Launch]:
        """Return launches for the gradient of a sum, which a weight and the next sum read."""
        to_value, passed = self.steps[f"to_{value}"][t - 1], self.whole["passed"]
        pre, norm = self.settings.norm == "pre", self.norms[value]
        if norm is None:
            return [self._product(t, to_out, name, to_value, turned=True, residual=to_next)]
        added = None if pre else to_next
        own: dict[str, Any] = {
            "grad": passed,
            "sums": self.steps[value][t - 1],
            "to_rows": to_value,
        }
        own |= {"residual": to_next if pre else None, "count": self.steps["active"][t - 1]}
        own |= {"norm_parts": self.parts[norm], "to_states": None}
        return [
            self._product(t, to_out, name, passed, turned=True, residual=added),
            self._launch(rows_backward, (self.programs,), t, **own, **self._norm(value, t)),
        ]

    def _weight_gradients(self) -> list[Launch]:
        steps, whole = self.steps, {"nodes": self.steps["nodes"], "active": self.steps["active"]}
        of = {"output": "mixed", "cross_output": "cross_mixed", "last": "inner"}
        of |= {"joint": "rows", "cross_query": "middle", "first": self.before_last}
        grads = {"output": "middle", "cross_output": "crossed", "last": "sums"}
        grads |= {"joint": "query", "cross_query": "cross_query", "first": "inner"}
        found = []
        for weight in [key for key in self.inputs if key.endswith("_weight")]:
            name = weight.removesuffix("_weight")
            outer, inner = self.inputs[weight].shape
            parts, sizes = self.parts[weight], product_sizes(inner, outer, self.work)
            own: dict[str, Any] = {
                "grad": steps[f"to_{grads[name]}"],
                "x": steps[of[name]],
                "split": outer,
            }
            own |= {"inner": inner, "outer": outer, "weight": self.inputs[weight], "activation": ""}
            own |= {"to_weight": parts, "to_bias": self.parts[f"{name}_bias"], **whole}
            own |= {"count": steps["active"], "steps": self.settings.max_steps, **sizes}
            own["places"] = 2 * len(PLACES)
            if of[name] in self.norms:
                own |= self._norm(of[name], 1)
                own["stats"] = steps[f"stats_{of[name]}"]
            if name == "joint":
                own |= {"count": steps["count"], "other": steps["to_table"]}
                own["split"] = steps["query"].shape[2]
            if name == "last":
                own |= {"activation": self.settings.activation, **self._drop("inner", 1, "x_")}
            if name in ("output", "cross_output", "last"):
                own |= self._drop(name, 1)
            tiles = -(-outer // sizes["block_n"]), -(-inner // sizes["block_k"])
            found.append(self._launch(weight_gradient, (*tiles, len(parts)), 1, **own))
        return found

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


def row_sizes(width: int) -> dict[str, Any]:
    """Return the tile sizes and launch options of kernels whose programs read whole rows."""
    block_w = padded(width)
    return {"block_m": max(1, min(32, 2048 // block_w)), "block_w": block_w, **FUSED}


def product_sizes(inner: int, outer: int, dtype: torch.dtype) -> dict[str, Any]:
    """Return the tile sizes and launch options of products."""
    half = dtype.itemsize == 2
    sizes = {"block_m": 64, "block_n": min(128 if half else 64, padded(outer))}
    sizes |= {"block_k": min(64 if half else 32, padded(inner)), "num_warps": 4, "num_stages": 3}
    return {**sizes, "precision": "tf32x3", **FUSED}
