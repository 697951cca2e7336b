"""The weights of a program, as kernels read them, and the sums that are their gradients.

All of this is torch's work inside the CUDA graph. Outside, parameters are only copied.
"""

from collections.abc import Mapping
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

from graphut.nn.gpu.settings import NORMS, Settings

LAYERS = ("output", "first", "last", "cross_query", "cross_output")  # besides query and key_value


class Weights:
    """Weights in the dtype of matrix products, with those of query, key and value in one.

    `given` are the parameters by name. A bias has a row for each step, or a single one. Without
    step signals in stored keys and values, later steps move all values by one vector: the biases
    of these layers contain it.
    """

    def __init__(self, settings: Settings, given: Mapping[str, Tensor]) -> None:
        self.given, self.moves = given, settings.moves_values and "signals" in given
        self.split, self.width = given["query_weight"].shape
        states, work, rows = given["states"], settings.work, settings.max_steps * self.moves or 1
        self.tensors: dict[str, Tensor] = {}
        for name in LAYERS:
            if (weight := given.get(f"{name}_weight")) is not None:
                weight = weight if weight.dtype == work else torch.empty_like(weight, dtype=work)
                self.tensors[f"{name}_weight"] = weight
            if (bias := given.get(f"{name}_bias")) is not None:
                self.tensors[f"{name}_bias"] = bias[None]
        wide, joint = torch.float32, self.split + len(given["key_value_weight"])
        self.tensors["joint_weight"] = states.new_empty(joint, self.width, dtype=work)
        if self.moves or "query_bias" in given:
            self.tensors["joint_bias"] = states.new_empty(rows, joint, dtype=wide)
        if self.moves:
            self.tensors["output_bias"] = states.new_empty(rows, states.shape[1], dtype=wide)
        for name in NORMS:
            for new, kind in (("scale", "weight"), ("shift", "bias")):
                if (x := given.get(f"{name}_norm_{kind}")) is not None:
                    self.tensors[f"{name}_{new}"] = x
        if "unit_weight" in given:
            self.tensors["unit"] = states.new_empty(self.width + 1, dtype=wide)

    def prepare(self) -> None:
        """Compute the tensors from what is given."""
        given, tensors, split = self.given, self.tensors, self.split
        pairs = {
            "query_weight": tensors["joint_weight"][:split],
            "key_value_weight": tensors["joint_weight"][split:],
        }
        if "unit" in tensors:
            pairs |= {"unit_weight": tensors["unit"][None, :-1], "unit_bias": tensors["unit"][-1:]}
        if "query_bias" in given:
            pairs["query_bias"] = tensors["joint_bias"][:, :split]
            pairs["key_value_bias"] = tensors["joint_bias"][:, split:]
        elif self.moves:
            tensors["joint_bias"].zero_()
        for name, x in tensors.items():
            if name in given and x is not given[name] and name.endswith("weight"):
                pairs[name] = x
        if self.moves and "output_bias" in given:
            pairs["output_bias"] = tensors["output_bias"]
        elif self.moves:
            tensors["output_bias"].zero_()
        for name, x in pairs.items():
            x.copy_(given[name].expand_as(x))
        if self.moves:
            shift, moved = self._shift()
            tensors["joint_bias"][:, split:] -= shift
            tensors["output_bias"] += moved @ given["output_weight"].t()

    def _shift(self) -> tuple[Tensor, Tensor]:
        """Return what step signals add to keys and values, and to values only."""
        shift = self.given["signals"] @ self.given["key_value_weight"].t()
        return shift, shift[:, shift.shape[1] // 2 :]

    def allocate_gradients(self, parts: Mapping[str, Tensor]) -> None:
        """Allocate one tensor for all gradients; `parts` are sums of programs by name."""
        axes = {name: 1 if name == "signals" else 0 for name in parts}
        self._axes = {name: (0, 1) if name.endswith("_bias") else axes[name] for name in parts}
        self._shapes = {name: x.sum(self._axes[name]).shape for name, x in parts.items()}
        size = sum(map(prod, self._shapes.values()))
        self._flat = self.given["states"].new_empty(size, dtype=torch.float32)

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        ends = accumulate(map(prod, self._shapes.values()))
        sizes = self._shapes.items()
        return {
            name: flat[end - prod(shape) : end].view(shape)
            for end, (name, shape) in zip(ends, sizes, strict=True)
        }

    def collect(self, parts: Mapping[str, Tensor]) -> None:
        """Add up the parts of all gradients."""
        sums, given = self._views(self._flat), self.given
        for name, x in parts.items():
            torch.sum(x, self._axes[name], out=sums[name])
        if self.moves:
            values = self._shift()[1]
            to_output, to_shift = parts["output_bias"].sum(0), -parts["joint_bias"].sum(0)
            to_shift = to_shift[:, self.split :]
            to_shift[:, -values.shape[1] :] += to_output @ given["output_weight"].float()
            sums["output_weight"] += to_output.t() @ values.float()
            sums["joint_weight"][self.split :] += to_shift.t() @ given["signals"].float()
            sums["signals"] += to_shift @ given["key_value_weight"].float()

    def gradients(self) -> dict[str, Tensor]:
        """Return the gradients by the names of what is given."""
        found = {}
        for name, x in self._views(self._flat.clone()).items():
            if name.startswith("joint_"):
                kind = name.removeprefix("joint_")
                found[f"query_{kind}"] = x[: self.split]
                found[f"key_value_{kind}"] = x[self.split :]
            elif name in NORMS:
                found[f"{name}_norm_weight"], found[f"{name}_norm_bias"] = x.unbind()
            elif name == "unit":
                found |= {"unit_weight": x[None, :-1], "unit_bias": x[-1:]}
            else:
                found[name] = x
        return {name: x for name, x in found.items() if name in self.given}
