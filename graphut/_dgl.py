"""Import DGL, here only: on current torch too, or with an error that says how to mend it.

Where DGL is not installed, what needs it raises that error when it is used.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from importlib import metadata
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["DGLGraph", "dgl", "is_installed"]

# The release whose wheels work, for each Python; setup.cfg asks for the same.
_REQUIREMENT = "dgl>=1.1.3,<2" if sys.version_info < (3, 12) else "dgl>=2.1,<3"


def _import_dgl() -> Any:
    # Unset, DGL would choose PyTorch as well, but print about it and write a file in the home.
    os.environ.setdefault("DGLBACKEND", "pytorch")
    try:
        return importlib.import_module("dgl")
    except Exception as error:
        if not _raised_in_graphbolt(error):
            raise ImportError(_explain(error)) from error
    # GraphBolt, DGL's data loader, is compiled for a few torch releases; nothing here uses it.
    _forget_dgl()
    sys.modules["dgl.graphbolt"] = ModuleType(
        "dgl.graphbolt", "Empty stand-in: the installed GraphBolt does not load on this torch."
    )
    try:
        return importlib.import_module("dgl")
    except Exception as error:
        _forget_dgl()
        raise ImportError(_explain(error)) from error


def _raised_in_graphbolt(error: Exception) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").startswith("dgl.graphbolt"):
            return True
        trace = trace.tb_next
    return False


def _forget_dgl() -> None:
    for name in [name for name in sys.modules if name == "dgl" or name.startswith("dgl.")]:
        del sys.modules[name]


def _explain(error: Exception) -> str:
    found = f"Python {platform.python_version()}, torch {_version('torch')}, dgl {_version('dgl')}"
    reason = f"{type(error).__name__}: {error}"
    return f"graphut needs DGL, which cannot be imported ({reason}).\nFound {found}. {_cure(error)}"


def _cure(error: Exception) -> str:
    if sys.version_info >= (3, 13):
        return "DGL has no wheel for this Python: use 3.10, 3.11 or 3.12."
    missing = _missing_package(error)
    if missing is None:
        return f'Try: pip install --force-reinstall --no-deps "{_REQUIREMENT}"'
    return f'Try: pip install "{_REQUIREMENT if missing == "dgl" else missing}"'


def _missing_package(error: BaseException) -> str | None:
    # The first import that failed counts: dgl 1.1.3 looks for `packaging` and, while
    # handling its absence, fails for good on a copy that setuptools no longer has.
    chain = [error]
    while chain[-1].__context__ is not None:
        chain.append(chain[-1].__context__)
    for cause in reversed(chain):
        if isinstance(cause, ModuleNotFoundError) and cause.name:
            package, _, inner = cause.name.partition(".")
            return None if package == "dgl" and inner else package
    return None


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


class _Missing:
    """Stand-in for a DGL that is not installed: no object is its graph, all else raises."""

    class DGLGraph:
        """The type of no object."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # so do tools that look at objects find nothing
        raise ImportError(_explain(ModuleNotFoundError("No module named 'dgl'", name="dgl")))


is_installed = importlib.util.find_spec("dgl") is not None
dgl: Any = _import_dgl() if is_installed else _Missing()

if TYPE_CHECKING:
    from dgl import DGLGraph
else:
    DGLGraph = dgl.DGLGraph
