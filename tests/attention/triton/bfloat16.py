"""Triton's interpreter takes bfloat16 for integers in products, and cuts it off unrounded."""

from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle


def mend_bfloat16(patch: pytest.MonkeyPatch) -> None:
    """Products and conversions as on a device."""
    convert, multiply = InterpreterBuilder.cast_impl, InterpreterBuilder.create_dot

    def rounded(self: Any, source: Any, to: Any) -> Any:
        if (source.dtype.scalar, to.scalar) == (tl.float32, tl.bfloat16):
            bits = torch.from_numpy(source.data.copy()).bfloat16().view(torch.int16)
            return TensorHandle(bits.numpy().view(np.uint16), tl.bfloat16)
        return convert(self, source, to)

    def product(self: Any, a: Any, b: Any, *others: Any) -> Any:
        a, b = (
            convert(self, x, tl.float32) if x.dtype.scalar == tl.bfloat16 else x for x in (a, b)
        )
        return multiply(self, a, b, *others)

    patch.setattr(InterpreterBuilder, "cast_impl", rounded)
    patch.setattr(InterpreterBuilder, "create_dot", product)
