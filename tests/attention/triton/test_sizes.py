import pytest
import torch

from graphut.attention.triton.sizes import WIDEST, tile_sizes

SHARED_MEMORY = 227 * 1024  # bytes a program may have on an H200


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [16, 32, 64, 128, 256, WIDEST])
def test_tile_sizes_fit_into_shared_memory(width: int, dtype: torch.dtype) -> None:
    sizes = tile_sizes(width, dtype)
    rows = 2 * sizes.block_m + 2 * sizes.block_n * sizes.num_stages
    assert rows * width * dtype.itemsize <= SHARED_MEMORY
