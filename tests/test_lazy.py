import pytest

import graphut
from graphut import attention, experiments, models, nn


def test_lazy_names_are_imported_when_they_are_used() -> None:
    assert graphut.load is models.load and graphut.nn is nn
    for package in (graphut, models, experiments, nn, attention):
        for name in getattr(package, "__all__", ()):
            assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match=r"module 'graphut.models' has no attribute 'nothing'"):
        models.nothing  # noqa: B018
