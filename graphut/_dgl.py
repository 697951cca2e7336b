"""Import DGL when an attribute of `dgl` is first used, even with a torch newer than DGL.

`import dgl` takes a second, and most uses of graphut need no DGL graph.
"""

import importlib.util
import os
import platform
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["DGLGraph", "dgl", "is_installed"]

# The DGL release that has working wheels for this Python, if any; setup.cfg requires the same.
_REQUIREMENT = "dgl>=1.1.3,<2" if sys.version_info < (3, 12) else "dgl>=2.1,<3"
_HAS_WHEELS = sys.version_info < (3, 13)
_GRAPHBOLT = "dgl.graphbolt"

is_installed = importlib.util.find_spec("dgl") is not None

# Without this variable DGL also chooses PyTorch, but prints a message and writes into the home.
os.environ.setdefault("DGLBACKEND", "pytorch")


class _GraphBoltLoader(Loader):
    """Loader of DGL's data loader GraphBolt; if it cannot be loaded, its module stays empty.

    GraphBolt is compiled for a few torch releases only, and graphut does not use it.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def exec_module(self, module: ModuleType) -> None:
        initial = dict(vars(module))
        try:
            self.loader.exec_module(module)
        except Exception:
            _forget(_GRAPHBOLT + ".")
            vars(module).clear()
            vars(module).update(initial)
            module.__doc__ = "Empty module: the installed GraphBolt does not load on this torch."


class _GraphBoltFinder(MetaPathFinder):
    """Import hook, also for other code in the process that imports DGL."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == _GRAPHBOLT else None
        if spec is not None and spec.loader is not None:
            spec.loader = _GraphBoltLoader(spec.loader)
        return spec


sys.meta_path.insert(0, _GraphBoltFinder())


def _import_dgl() -> Any:
    try:
        return importlib.import_module("dgl")
    except Exception as error:
        _forget("dgl.")  # a second attempt then raises the same error
        raise ImportError(
            f"graphut needs DGL, which cannot be imported ({type(error).__name__}: {error}).\n"
            "Without DGL, pass a layout instead of a graph (topology.layout(lengths), or "
            "graphut.nn.from_edge_index(edge_index, num_nodes)), and sentences as lists.\n"
            f"This is Python {platform.python_version()}; DGL has wheels for 3.10 to 3.12. "
            f"Try{f': pip install {_REQUIREMENT!r}' if _HAS_WHEELS else ' Python 3.12.'}"
        ) from error


def _forget(prefix: str) -> None:
    for name in [name for name in sys.modules if name.startswith(prefix)]:
        del sys.modules[name]


class _LazyDGL:
    """A stand-in for the module `dgl`: reading an attribute imports DGL."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # tools that inspect objects ask for such names
        return getattr(_import_dgl(), name)


class _DGLGraphType(type):
    def __instancecheck__(cls, value: object) -> bool:
        # As long as nobody has imported DGL, no object is one of its graphs.
        return isinstance(value, getattr(sys.modules.get("dgl"), "DGLGraph", ()))


dgl: Any = _LazyDGL()

if TYPE_CHECKING:
    from dgl import DGLGraph
else:

    class DGLGraph(metaclass=_DGLGraphType):
        """A stand-in for `dgl.DGLGraph` in annotations and `isinstance`; it does not import DGL."""
