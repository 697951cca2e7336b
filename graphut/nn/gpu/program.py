"""A recurrence as a fixed sequence of kernel launches, whatever nodes halt at which step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphut.attention.triton.function import SPLIT, kernels_of
from graphut.attention.triton.inputs import ActiveRows, KernelInputs, Launch, TableSteps, padded
from graphut.attention.triton.interval import IntervalTables
from graphut.attention.triton.sizes import FUSED
from graphut.nn.gpu.kernels.products import product, weight_gradient
from graphut.nn.gpu.kernels.rows import advance, finish, finish_backward, rows_backward
from graphut.nn.gpu.settings import Settings

GROUP = 1024  # nodes whose active ones are counted together
ALIGNED = 4  # int32 in 16 bytes
PROGRAMS = 256  # of a kernel that loops over rows, or over parts of a weight's gradient
# By their names in `graphut.nn.gpu.device_loop`.
Tensors = Mapping[str, Tensor]


class Program:
    """The launches of a recurrence, forward and backward, and the tensors that they read and write.

    All tensors have the full size, and the launches read the numbers of sources, of destinations
    and of active nodes on the device. `inputs` are the tensors that `load` fills. Their `layout` is
    given if the edges are not among them.
    """

    def __init__(self, settings: Settings, inputs: Tensors, layout: Any) -> None:
        self.settings, self.layout, self.inputs, self.tables = settings, layout, inputs, None
        if layout is None:
            blocks = inputs["row_blocks"], inputs["source_blocks"]
            self.tables = IntervalTables(inputs["lo"], inputs["hi"], inputs["lo"], None, *blocks)
        self.size, self.width = inputs["states"].shape
        self.wide = inputs["output_weight"].shape[1]  # all heads together
        self.hidden = inputs["first_weight"].shape[0]
        self.device = inputs["states"].device
        self.work = inputs["output_weight"].dtype  # of factors of matrix products
        self.kept = inputs["states"].dtype  # of states
        self._allocate()
        self.forward = [launch for t in self._steps() for launch in self._forward(t)]
        self.backward: list[Launch] = []
        if settings.learns:
            self._allocate_gradients()
            for t in reversed(self._steps()):
                self.backward += self._backward(t)
            self.backward += self._weight_gradients()

    def load(self, inputs: Tensors) -> None:
        """Copy the inputs of a call; those by node may have fewer rows."""
        own = [x if x.dim() == 0 else x[: len(inputs[name])] for name, x in self.inputs.items()]
        torch._foreach_copy_(own, [inputs[name] for name in self.inputs])

    def load_gradients(self, to_out: Tensor, to_remainder: Tensor) -> None:
        """Copy the gradients of the outputs, and prepare the backward pass."""
        own = [self.to_out[: len(to_out)], self.to_remainder[: len(to_remainder)]]
        torch._foreach_copy_(own, [to_out, to_remainder])
        if self.to_encodings is not None:
            self.to_encodings.zero_()

    def _steps(self) -> range:
        return range(1, self.settings.max_steps + 1)

    # Tensors.

    def _new(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.empty(shape, dtype=dtype or self.kept, device=self.device)

    def _by_step(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Allocate a tensor for each step; all steps share it without a backward pass."""
        steps = self.settings.max_steps
        if self.settings.learns:
            return self._new(steps, *shape, dtype=dtype)
        return self._new(1, *shape, dtype=dtype).expand(steps, *shape)

    def _allocate(self) -> None:
        size, width, wide, steps = self.size, self.width, self.wide, self.settings.max_steps
        whole = {"dtype": torch.int32}
        self.block = row_sizes(width)["block_m"]
        self.groups = size // GROUP + 1
        blocks = size // self.block + 1
        self.going = self._new(steps + 1, self.groups, **whole)
        self.halted, self.settled, self.closed = (self._new(size, **whole) for _ in range(3))
        # The rows of all steps begin at addresses for which the same kernels are compiled.
        self.before = self._new(steps, size + ALIGNED, **whole)
        self.nodes = self._new(steps, size, **whole)
        self.active, self.count = (self._new(steps, ALIGNED, **whole) for _ in range(2))
        self.errors = self._new(blocks, **whole)
        self.spent, self.remainder = (self._new(size, dtype=torch.float32) for _ in range(2))
        self.out = self._new(size, width)
        self.rows, self.middle, self.sums = (self._by_step(size, width) for _ in range(3))
        self.query, self.mixed = (self._by_step(size, wide, dtype=self.work) for _ in range(2))
        self.table = self._by_step(size, 2 * wide, dtype=self.work)
        self.inner = self._by_step(size, self.hidden, dtype=self.work)
        # Of the LayerNorms of the input, of the middle and of the end of a step.
        self.stats = [self._by_step(size, 2, dtype=torch.float32) for _ in range(3)]
        self.softmax = self._by_step(size, self.settings.heads, 2, dtype=torch.float32)
        rounds = self.settings.learns and self.work != torch.float32
        self.rest = self._by_step(size, wide, dtype=self.work) if rounds else None
        self.share = self._by_step(size, dtype=torch.float32)

    def _allocate_gradients(self) -> None:
        size, width, wide = self.size, self.width, self.wide
        steps = self.settings.max_steps
        given = self.inputs
        self.to_out = self._new(size, width)
        self.to_remainder, self.to_spent = (self._new(size, dtype=torch.float32) for _ in range(2))
        self.to_states = self._new(size, width)
        self.to_middle, self.to_sums = (self._by_step(size, width) for _ in range(2))
        self.to_query = self._by_step(size, wide, dtype=self.work)
        self.to_table = self._by_step(size, 2 * wide, dtype=self.work)
        self.to_inner = self._by_step(size, self.hidden, dtype=self.work)
        self.to_mixed = self._new(size, wide, dtype=self.work)
        self.delta = self._new(size, self.settings.heads, dtype=torch.float32)
        self.to_logit = self._by_step(size, dtype=torch.float32)
        self.passed = self._new(size, width)
        self.to_encodings = None
        if "encodings" in given:
            self.to_encodings = self._new(size, width, dtype=torch.float32)
        programs = min(PROGRAMS, -(-size // self.block))
        self.parts: dict[str, Tensor] = {}
        if "signals" in given:
            self.parts["signals"] = self._new(steps, programs, width, dtype=torch.float32)
        if "unit" in given:
            self.parts["unit"] = self._new(programs, width + 1, dtype=torch.float32)
        if self.settings.norm is not None:
            for name in ("attention", "transition"):
                self.parts[name] = self._new(programs, 2, width, dtype=torch.float32)
        for name in ("joint", "output", "first", "last"):
            outer, inner = given[f"{name}_weight"].shape
            sizes = product_sizes(inner, outer, self.work)
            tiles = -(-outer // sizes["block_n"]) * -(-inner // sizes["block_k"])
            parts = max(1, min(PROGRAMS // tiles, -(-size // sizes["block_m"])))
            self.parts[f"{name}_weight"] = self._new(parts, outer, inner, dtype=torch.float32)
            self.parts[f"{name}_bias"] = self._new(parts, steps, outer, dtype=torch.float32)

    # Launches.

    def _norm(self, which: str, place: int, t: int) -> dict[str, Any]:
        """Return the arguments for the LayerNorm `which`, whose statistics are at `place`."""
        index = 0 if which == "attention" else 1
        return {
            "stats": self.stats[place][t - 1],
            "scale": self.inputs[f"{which}_scale"],
            "shift": self.inputs[f"{which}_shift"],
            "eps": self.settings.eps[index],
        }

    def _norms(self, t: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Return the LayerNorms of a step's input, of its middle and of its end."""
        none: dict[str, Any] = {"stats": None, "scale": None, "shift": None, "eps": 0.0}
        if self.settings.norm == "pre":
            return self._norm("attention", 0, t), self._norm("transition", 1, t), none
        if self.settings.norm == "post":
            return none, self._norm("attention", 1, t), self._norm("transition", 2, t)
        return none, none, none

    def _of_step(self, name: str, t: int) -> Tensor | None:
        """Return the row for step `t` of an input that may have a single row for all steps."""
        rows = self.inputs.get(name)
        return None if rows is None else rows[min(t, len(rows)) - 1]

    def _forward(self, t: int) -> list[Launch]:
        at, given, settings = t - 1, self.inputs, self.settings
        first, middle, end = self._norms(t)
        rows, inner, mixed = self.rows[at], self.inner[at], self.mixed[at]
        common = self._common(t)
        grid = (self.size // self.block + 1,)
        return [
            Launch(
                advance,
                grid,
                {
                    "states": given["states"],
                    "encodings": given.get("encodings"),
                    "signal": self._of_step("signals", t),
                    "sizes": given["sizes"],
                    "settled": self.settled,
                    "before_last": self.before[at - 1] if at else None,
                    "before": self.before[at],
                    "active_last": self.active[at - 1] if at else None,
                    "count": self.count[at],
                    "rows": rows,
                    "going": self.going,
                    "halted": self.halted,
                    "errors": self.errors,
                    "last_step": settings.max_steps,
                    "is_first": t == 1,
                    "lanes": 128,
                    "size": self.size,
                    "groups": self.groups,
                    "group": GROUP,
                    **common,
                },
            ),
            self._product(
                t,
                rows,
                "joint",
                self.query[at],
                stores=True,
                out_other=self.table[at],
                out_split=self.wide,
                **first,
            ),
            *kernels_of(self._attention(t)).forward(
                self._attention(t), *self._attention_results(t)
            ),
            self._product(t, mixed, "output", self.middle[at], residual=rows),
            self._product(t, self.middle[at], "first", inner, **middle),
            self._product(
                t,
                inner,
                "last",
                self.sums[at],
                activation=settings.activation,
                residual=self.middle[at],
                **self._residual_norm(middle),
            ),
            Launch(
                finish,
                grid,
                {
                    "sums": self.sums[at],
                    "rows": rows,
                    **end,
                    "unit": given.get("unit"),
                    "schedule": given.get("schedule"),
                    "going": self.going,
                    "spent": self.spent,
                    "states": given["states"],
                    "out": self.out,
                    "remainder": self.remainder,
                    "halted": self.halted,
                    "settled": self.settled,
                    "closed": self.closed,
                    "share": self.share[at],
                    "errors": self.errors,
                    "low": settings.low,
                    "threshold": settings.threshold,
                    "forced": settings.forced,
                    "reads_input": settings.reads_input,
                    "is_first": t == 1,
                    "is_last": t == settings.max_steps,
                    "size": self.size,
                    "groups": self.groups,
                    "group": GROUP,
                    **common,
                },
            ),
        ]

    def _common(self, t: int) -> dict[str, Any]:
        return {
            "nodes": self.nodes[t - 1],
            "active": self.active[t - 1],
            "step": t,
            "stored": self.settings.stored,
            "width": self.width,
            **row_sizes(self.width),
        }

    def _residual_norm(self, norm: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for a residual that the LayerNorm of the middle was applied to."""
        if self.settings.norm != "post":
            return {}
        return {f"residual_{name}": norm[name] for name in ("stats", "scale", "shift")}

    def _product(
        self,
        t: int,
        x: Tensor,
        name: str,
        out: Tensor,
        *,
        turned: bool = False,
        stores: bool = False,
        **more: Any,
    ) -> Launch:
        """Multiply rows by a weight, or, `turned`, gradients of the results by its transpose.

        With `stores`, the rows are all that are stored, not only the active ones.
        """
        weight = self.inputs[f"{name}_weight"]
        outer, inner = weight.shape
        strides = {"outer_stride": inner, "inner_stride": 1}
        if turned:
            outer, inner = inner, outer
            strides = {"outer_stride": 1, "inner_stride": outer}
        sizes = product_sizes(inner, outer, self.work)
        names = (
            *("other", "stats", "scale", "shift", "residual", "residual_stats", "hidden"),
            *("residual_scale", "residual_shift", "out_other"),
        )
        arguments: dict[str, Any] = {
            **dict.fromkeys(names),
            "x": x,
            "nodes": self.nodes[t - 1],
            "count": (self.count if stores else self.active)[t - 1],
            "active": self.active[t - 1],
            "weight": weight,
            "bias": None if turned else self._of_step(f"{name}_bias", t),
            "out": out,
            **strides,
            "inner": inner,
            "outer": outer,
            "split": inner,
            "out_split": outer,
            "activation": "",
            "slope_of": "",
            "eps": 0.0,
            **sizes,
            **more,
        }
        grid = -(-self.size // sizes["block_m"]), -(-outer // sizes["block_n"])
        return Launch(product, grid, arguments)

    def _attention(self, t: int) -> KernelInputs:
        by_head = self.settings.heads, self.wide // self.settings.heads
        at = t - 1
        active = ActiveRows(self.nodes[at], self.size, self.before[at], self.active[at])
        # All steps have one table without a backward pass: a step replaces the rows that it stores.
        steps = None
        if self.settings.learns:
            steps = TableSteps(self.settled, self.size, t, self.settings.max_steps)
        key, value = self.table[0].view(self.size, 2, *by_head).unbind(1)
        return KernelInputs(
            layout=self.layout,
            active=active,
            query=self.query[at].view(self.size, *by_head),
            key=key,
            value=value,
            edge_bias=None,
            scale=by_head[1] ** -0.5,
            dropout=0.0,
            seed=0,
            split=SPLIT,
            steps=steps,
            tables=self.tables,
        )

    def _attention_results(self, t: int) -> tuple[Tensor, Tensor | None, Tensor]:
        by_head = self.settings.heads, self.wide // self.settings.heads
        rest = None if self.rest is None else self.rest[t - 1].view(self.size, *by_head)
        return self.mixed[t - 1].view(self.size, *by_head), rest, self.softmax[t - 1]

    # The backward pass.

    def _backward(self, t: int) -> list[Launch]:
        at, given, settings = t - 1, self.inputs, self.settings
        first, middle, end = self._norms(t)
        is_last = t == settings.max_steps
        to_sums, to_middle, to_inner = self.to_sums[at], self.to_middle[at], self.to_inner[at]
        common = self._common(t)
        del common["step"]
        common |= {"is_last": is_last, "count_next": None if is_last else self.count[t]}
        grid = (min(PROGRAMS, -(-self.size // self.block)),)
        has_unit = "unit" in given
        by_head = self.settings.heads, self.wide // self.settings.heads
        attention, (out, rest, softmax) = self._attention(t), self._attention_results(t)
        to_out = self.to_mixed.view(self.size, *by_head)
        shared = {"to_out": to_out, "to_out_stride": to_out.stride(0), "softmax": softmax}
        shared["delta"] = self.delta
        kernels = kernels_of(attention)
        to_query = self.to_query[at].view(self.size, *by_head)
        to_key, to_value = self.to_table[0].view(self.size, 2, *by_head).unbind(1)
        rows_given: dict[str, Any] = {
            **dict.fromkeys(("sums", "stats", "scale", "residual", "logit", "unit", "to_rows")),
            **dict.fromkeys(("to_states", "to_encodings", "norm_parts", "signal_parts")),
            **common,
        }
        passed = self.passed
        launches = [
            Launch(
                finish_backward,
                grid,
                {
                    "sums": self.sums[at],
                    "rows": self.rows[at],
                    **_without_eps(end),
                    "unit": given.get("unit"),
                    "halted": self.halted,
                    "closed": self.closed,
                    "share": self.share[at],
                    "to_out": self.to_out,
                    "to_remainder": self.to_remainder,
                    "to_states": self.to_states,
                    "to_spent": self.to_spent,
                    "to_sums": to_sums,
                    "to_logit": self.to_logit[at] if has_unit else None,
                    "norm_parts": self.parts.get("transition"),
                    "unit_parts": self.parts.get("unit"),
                    "reads_input": settings.reads_input,
                    "step": t,
                    **common,
                },
            ),
            self._product(
                t,
                to_sums,
                "last",
                to_inner,
                turned=True,
                hidden=self.inner[at],
                slope_of=settings.activation,
            ),
            self._product(
                t,
                to_inner,
                "first",
                to_middle if settings.norm is None else passed,
                turned=True,
                residual=None if settings.norm == "pre" else to_sums,
            ),
        ]
        if settings.norm is not None:
            which = "transition" if settings.norm == "pre" else "attention"
            of_middle = {
                "grad": passed,
                "sums": self.middle[at],
                "stats": middle["stats"],
                "scale": middle["scale"],
                "residual": to_sums if settings.norm == "pre" else None,
                "to_rows": to_middle,
                "norm_parts": self.parts[which],
                "count": self.active[at],
            }
            launches.append(Launch(rows_backward, grid, rows_given | of_middle))
        launches += [
            self._product(t, to_middle, "output", self.to_mixed, turned=True),
            *kernels.backward_rows(
                attention, to_query, {"out": out, "rest": rest, "to_bias": None, **shared}
            ),
            *kernels.backward_sources(attention, to_key, to_value, shared),
            self._product(
                t,
                self.to_query[at],
                "joint",
                passed,
                turned=True,
                stores=True,
                other=self.to_table[at],
                split=self.wide,
            ),
        ]
        of_rows = {
            "grad": passed,
            "sums": self.rows[at],
            "stats": first["stats"],
            "scale": first["scale"],
            "residual": to_middle,
            "logit": self.to_logit[at] if has_unit and settings.reads_input else None,
            "unit": given.get("unit"),
            "to_states": self.to_states,
            "to_encodings": self.to_encodings,
            "norm_parts": self.parts.get("attention"),
            "signal_parts": self.parts["signals"][at] if "signals" in given else None,
            "count": self.count[at],
        }
        return [*launches, Launch(rows_backward, grid, rows_given | of_rows)]

    def _weight_gradients(self) -> list[Launch]:
        first, middle, _ = map(_without_eps, self._norms(1))
        whole = [
            {
                name: x if x is None or name != "stats" else self.stats[place]
                for name, x in n.items()
            }
            for place, n in enumerate((first, middle))
        ]
        none = dict.fromkeys(("stats", "scale", "shift"))
        stored = {"other": self.to_table, "count": self.count, "split": self.wide}
        active = {"other": None, "count": self.active}
        found = []
        for name, grad, x, more in (
            ("joint", self.to_query, self.rows, stored | whole[0]),
            ("output", self.to_middle, self.mixed, active | none),
            ("first", self.to_inner, self.middle, active | whole[1]),
            ("last", self.to_sums, self.inner, active | none),
        ):
            weight = self.inputs[f"{name}_weight"]
            outer, inner = weight.shape
            sizes = product_sizes(inner, outer, self.work)
            parts = self.parts[f"{name}_weight"]
            arguments = {
                "grad": grad,
                "x": x,
                "nodes": self.nodes,
                "active": self.active,
                "weight": weight,
                "to_weight": parts,
                "to_bias": self.parts[f"{name}_bias"],
                "steps": self.settings.max_steps,
                "size": self.size,
                "sources": self.size,
                "inner": inner,
                "outer": outer,
                "split": outer,
                "activation": self.settings.activation if name == "last" else "",
                **sizes,
                **more,
            }
            tiles = -(-outer // sizes["block_n"]), -(-inner // sizes["block_k"])
            found.append(Launch(weight_gradient, (*tiles, len(parts)), arguments))
        return found

    def gradients(self, inputs: Tensors) -> dict[str, Tensor]:
        """Return the gradients of the inputs after the launches of the backward pass."""
        num_src = len(inputs["states"])
        found = {"states": self.to_states[:num_src].clone()}
        if self.to_encodings is not None:
            found["encodings"] = self.to_encodings[:num_src].clone()
        for name, parts in self.parts.items():
            if name.endswith("_bias"):
                sums = parts.sum(0)
                by_step = name in inputs and len(inputs[name]) > 1
                found[name] = sums if by_step else sums.sum(0, keepdim=True)
            elif name == "signals":
                found[name] = parts.sum(1)
            elif name in ("attention", "transition"):
                found[f"{name}_scale"], found[f"{name}_shift"] = parts.sum(0).unbind()
            else:
                found[name] = parts.sum(0)
        return {name: x.to(inputs[name].dtype) for name, x in found.items() if name in inputs}


def _without_eps(norm: dict[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in norm.items() if name != "eps"}


def row_sizes(width: int) -> dict[str, Any]:
    """Return the tile sizes and launch options of kernels whose programs read whole rows."""
    block_w = padded(width)
    return {"block_m": max(1, min(32, 4096 // block_w)), "block_w": block_w, **FUSED}


def product_sizes(inner: int, outer: int, dtype: torch.dtype) -> dict[str, Any]:
    """Return the tile sizes and launch options of products."""
    is_half = dtype.itemsize == 2
    return {
        "block_m": 64,
        "block_n": min(128 if is_half else 64, padded(outer)),
        "block_k": min(64 if is_half else 32, padded(inner)),
        "precision": "tf32x3",
        "num_warps": 4,
        "num_stages": 3,
        **FUSED,
    }
