"""The weights of a program, as kernels read them, and their gradients.

All of this is torch's work inside the CUDA graph. Outside, parameters are only copied.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.nn.gpu.settings import Settings

LAYERS = ("output", "first", "last", "cross_query", "cross_output")  # besides query and key_value
BIASES = [f"{name}_bias" for name in LAYERS]
OTHERS = {"states", "encodings", "encoded", "signals"}  # inputs that are no weights


class Weights:
    """Weights in the dtype of matrix products; the maps of query, key and value are one matrix.

    `given` are the inputs of the program by name. A bias has a row for each step, or a single one.
    Without step signals in stored keys and values, later steps move all values by one vector: the
    biases of these layers contain it.
    """

    def __init__(self, settings: Settings, given: Mapping[str, Tensor]) -> None:
        self.signals = given.get("signals") if settings.moves_values else None
        self.given = {k: x for k, x in given.items() if x.is_floating_point() and k not in OTHERS}
        self.tensors, self._computed = self._derive(self.given), dict[str, Tensor]()
        sums = {"joint_bias", "unit", *["output_bias"] * (self.signals is not None)}
        products = {"joint_weight", *(f"{name}_weight" for name in LAYERS)}
        dtypes = dict.fromkeys(sums, torch.float32) | dict.fromkeys(products, settings.work)
        for name, x in self.tensors.items():
            dtype = dtypes.get(name, x.dtype)
            if name in sums or name == "joint_weight" or x.dtype != dtype:
                self._computed[name] = torch.empty_like(x, dtype=dtype)
        self.tensors |= self._computed
        size = sum(x.numel() for x in self.given.values()) * settings.learns
        self._flat = given["query_weight"].new_empty(size)  # for all gradients

    def _derive(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return all weights from the parameters, which may be differentiated."""
        found = {**given}
        for name in filter(given.__contains__, BIASES):
            found[name] = given[name][None]
        for kind in ("weight", "bias"):
            if f"query_{kind}" in given:
                joint = torch.cat([given[f"{name}_{kind}"] for name in ("query", "key_value")])
                found[f"joint_{kind}"] = joint if kind == "weight" else joint[None]
        if "unit_weight" in given:
            found["unit"] = torch.cat([given["unit_weight"][0], given["unit_bias"]])
        if self.signals is not None:
            shift = self.signals @ given["key_value_weight"].t()
            moved = shift[:, shift.shape[1] // 2 :] @ given["output_weight"].t()
            queries = len(given["query_weight"])
            found["joint_bias"] = found.get("joint_bias", 0.0) - pad(shift, (queries, 0))
            found["output_bias"] = found.get("output_bias", 0.0) + moved
        return found

    def prepare(self) -> None:
        """Compute the tensors from the given weights."""
        found = self._derive(self.given)
        for name, x in self._computed.items():
            x.copy_(found[name])

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        parts = flat.split([x.numel() for x in self.given.values()])
        pairs = zip(self.given.items(), parts, strict=True)
        return {name: part.view(x.shape) for (name, x), part in pairs}

    def collect(self, parts: Mapping[str, Tensor]) -> None:
        """Compute the gradients of the given weights from the gradients of the tensors.

        `parts` have a first axis, over which they are summed.
        """
        given = {name: x.detach().requires_grad_() for name, x in self.given.items()}
        with torch.enable_grad():
            found = self._derive(given)
        pairs = [(found[name], x) for name, x in parts.items() if name in found]
        grads = [sums.sum_to_size(1, *x.shape)[0].to(x.dtype) for x, sums in pairs]
        slopes = torch.autograd.grad([x for x, _ in pairs], [*given.values()], grads)
        torch._foreach_copy_([*self._views(self._flat).values()], [*slopes])

    def gradients(self) -> dict[str, Tensor]:
        """Return the gradients of the given weights, by name."""
        return self._views(self._flat.clone())
