"""`graphut._dgl` beside made-up DGLs, each in a Python of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from graphut import _dgl

FILE = Path(_dgl.__file__)
LOAD = f"""
import runpy, sys
loaded = runpy.run_path({str(FILE)!r})
dgl = loaded["dgl"]
"""
WORKS = {
    "__init__.py": """
        import os
        from . import first, graphbolt
        backend = os.environ.get("DGLBACKEND")
        class DGLGraph: pass
    """,
    "first.py": "import dgl",
    "graphbolt.py": "works = True",
}
PIP = "dgl>=1.1.3,<2" if sys.version_info < (3, 12) else "dgl>=2.1,<3"


def run(
    folder: Path, code: str, files: dict[str, str] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new Python where `dgl` is a package of these files."""
    for name, text in (files or {}).items():
        path = folder / "dgl" / name
        path.parent.mkdir(exist_ok=True)
        lines = text.splitlines()
        path.write_text("\n".join(line.removeprefix(" " * 8) for line in lines))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("DGL", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**clean, "PYTHONPATH": str(folder), "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def error_of(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 1
    *_, message = result.stderr.partition("\nImportError: ")
    return message.strip()


def test_the_installed_dgl_is_imported_without_a_word_or_a_file(tmp_path: Path) -> None:
    result = run(tmp_path, LOAD + "print(dgl.graph(([0], [1])).num_nodes())")
    assert (result.stdout, result.stderr) == ("2\n", "")
    assert list(tmp_path.iterdir()) == []


def test_a_dgl_that_works_is_left_alone(tmp_path: Path) -> None:
    code = LOAD + "print(dgl.graphbolt.works, loaded['DGLGraph'] is dgl.DGLGraph, dgl.backend)"
    assert run(tmp_path, code, WORKS).stdout == "True True pytorch\n"
    assert run(tmp_path, code, WORKS, DGLBACKEND="mxnet").stdout == "True True mxnet\n"


def test_a_dgl_that_was_imported_before_is_the_one(tmp_path: Path) -> None:
    code = "import dgl as before" + LOAD + "print(dgl is before)"
    assert run(tmp_path, code, WORKS).stdout == "True\n"


@pytest.mark.parametrize(
    "failure",
    [
        "import torchdata.datapipes_that_went_away",
        "raise FileNotFoundError('libgraphbolt_pytorch_9.so')",
        "raise ImportError('Cannot load Graphbolt C++ library')",
        "raise OSError('undefined symbol')",
    ],
)
def test_a_dgl_whose_graphbolt_fails_is_imported_without_it(tmp_path: Path, failure: str) -> None:
    code = LOAD + "print(dgl.first.dgl is dgl, hasattr(dgl.graphbolt, 'works'))"
    result = run(tmp_path, code, {**WORKS, "graphbolt.py": failure})
    assert (result.stdout, result.stderr) == ("True False\n", "")


def test_without_graphbolt_it_may_still_lack_something(tmp_path: Path) -> None:
    files = {
        **WORKS,
        "graphbolt.py": "raise OSError('first')",
        "last.py": "import pandas_that_is_not_here",
    }
    files["__init__.py"] += "\n        from . import last"
    code = f"""
import sys
try:{LOAD.replace(chr(10), chr(10) + "    ")}
except ImportError as error:
    print(error)
print([name for name in sys.modules if name.startswith("dgl")])
"""
    out = run(tmp_path, code, files).stdout.splitlines()
    assert out[-2].endswith('Try: pip install "pandas_that_is_not_here"')
    assert out[-1] == "[]"


def test_a_missing_dgl_is_asked_for_with_its_range(tmp_path: Path) -> None:
    message = error_of(run(tmp_path, "import sys; sys.modules['dgl'] = None" + LOAD))
    assert message.endswith(f'Try: pip install "{PIP}"')


def test_the_error_names_what_is_installed_and_why_it_fails(tmp_path: Path) -> None:
    message = error_of(run(tmp_path, LOAD, {"__init__.py": "raise OSError('libdgl.so: too old')"}))
    versions = f"torch {metadata.version('torch')}, dgl {metadata.version('dgl')}"
    assert f"Found Python {platform.python_version()}, {versions}." in message
    assert "OSError: libdgl.so: too old" in message
    assert message.endswith(f'Try: pip install --force-reinstall --no-deps "{PIP}"')


def test_a_file_that_dgl_itself_lacks_is_mended_by_installing_it_anew(tmp_path: Path) -> None:
    message = error_of(run(tmp_path, LOAD, {"__init__.py": "import dgl.gone"}))
    assert message.endswith(f'Try: pip install --force-reinstall --no-deps "{PIP}"')


def test_the_first_missing_package_is_the_one_to_install(tmp_path: Path) -> None:
    as_dgl_1_does = """
        try:
            import packaging_gone.version
        except ImportError:
            from setuptools_gone.extern.packaging import version
    """
    message = error_of(run(tmp_path, LOAD, {"__init__.py": as_dgl_1_does}))
    assert message.endswith('Try: pip install "packaging_gone"')


def test_a_python_without_wheels_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    assert _dgl._cure(ImportError()) == (
        "DGL has no wheel for this Python: use 3.10, 3.11 or 3.12."
    )


def test_a_package_that_is_absent_has_no_version() -> None:
    assert _dgl._version("graphut-that-is-not-here") == "not installed"
