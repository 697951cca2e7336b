"""What all tests share: when marked ones are skipped, one thread, hypothesis without a clock."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from graphut._dgl import is_installed

DATA = Path(__file__).parents[2] / "shared" / "data"

# As if the processor had no instructions for bfloat16: else what is faster is measured again and
# again, and the tests train in one precision or the other.
if hasattr(torch.cpu, "get_capabilities"):
    torch.cpu.get_capabilities = dict  # type: ignore[assignment]

# On tensors this small threads cost more than they save, also in the processes of tests; tests of
# threads ask for them.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("graphut", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("graphut")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of the shared data; a test that uses this is skipped without it."""
    return DATA


@pytest.hookimpl(tryfirst=True)  # before pytest selects tests by -m
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker("data")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Skip a test that uses DGL where DGL is not installed."""
    try:
        yield
    except ImportError as error:
        if is_installed or "graphut needs DGL" not in str(error):
            raise
        pytest.skip("needs DGL")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("data") and not DATA.is_dir():
        pytest.skip("needs ../shared/data")
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail for a test file that cannot be imported; doctests would skip it without a word."""
    report = yield
    if report.skipped and "unable to import module" in str(report.longrepr):
        report.outcome = "failed"
    return report
