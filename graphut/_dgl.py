"""Import DGL at the first use of a name of `dgl`, on current torch releases too.

`import dgl` takes a second, and most uses of graphut need no DGL graph.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["DGLGraph", "dgl", "is_installed"]

# The DGL release that has working wheels for this Python; setup.cfg requires the same.
_REQUIREMENT = "dgl>=1.1.3,<2" if sys.version_info < (3, 12) else "dgl>=2.1,<3"
_GRAPHBOLT = "dgl.graphbolt"

is_installed = importlib.util.find_spec("dgl") is not None

# Without this variable DGL also chooses PyTorch, but prints a message and writes into the home.
os.environ.setdefault("DGLBACKEND", "pytorch")


class _GraphBoltFinder(MetaPathFinder):
    """Let `import dgl` succeed where GraphBolt, its data loader, cannot be loaded.

    GraphBolt is compiled for a few torch releases only, and graphut does not use it. On another
    release an empty module replaces it, also for a user's own `import dgl`.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _GRAPHBOLT:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _GraphBoltLoader(spec.loader)
        return spec


class _GraphBoltLoader(Loader):
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


sys.meta_path.insert(0, _GraphBoltFinder())


def _import_dgl() -> Any:
    try:
        return importlib.import_module("dgl")
    except Exception as error:
        _forget("dgl.")  # a second attempt then raises the same error
        raise ImportError(
            f"graphut needs DGL, which cannot be imported ({type(error).__name__}: {error}).\n"
            f"Found Python {platform.python_version()}, torch {_version('torch')}, dgl "
            f"{_version('dgl')}. {_cure(error)}"
        ) from error


def _forget(prefix: str) -> None:
    for name in [name for name in sys.modules if name.startswith(prefix)]:
        del sys.modules[name]


def _cure(error: BaseException) -> str:
    if sys.version_info >= (3, 13):
        return "DGL has no wheel for this Python: use 3.10, 3.11 or 3.12."
    # The first import that failed counts: dgl 1.1.3 looks for `packaging` and, while
    # handling its absence, fails for good on a copy that setuptools no longer has.
    chain: list[BaseException] = [error]
    while chain[-1].__context__ is not None:
        chain.append(chain[-1].__context__)
    missing = next(
        (e.name for e in chain[::-1] if isinstance(e, ModuleNotFoundError) and e.name), ""
    )
    package, _, inner = missing.partition(".")
    if package and (package != "dgl" or not inner):
        return f'Try: pip install "{_REQUIREMENT if package == "dgl" else package}"'
    return f'Try: pip install --force-reinstall --no-deps "{_REQUIREMENT}"'


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


class _LazyDGL:
    """A replacement of the module `dgl`, which it imports when an attribute is read."""

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
        """A replacement of `dgl.DGLGraph` in annotations and for `isinstance`."""
