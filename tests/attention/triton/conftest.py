"""The kernels that these tests run: compiled where there is a GPU, interpreted elsewhere."""

import pytest

from tests.attention.triton.interpreter import skip_unless_kernels_run


@pytest.fixture(autouse=True)
def _kernels_run_here() -> None:
    skip_unless_kernels_run()
