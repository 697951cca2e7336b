"""Metadata and requirements are in setup.cfg; here are the compiled kernels.

The kernels have a C interface and are loaded by ctypes, so one build works with every torch. They
are compiled once per instruction set; graphut loads the widest that the processor supports. Without
a compiler graphut installs all the same, and is slower.
"""

import os
import platform
from copy import copy
from glob import glob
from hashlib import sha256
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

NATIVE = "graphut/attention/native"
X86 = {
    "avx2": ["-mavx2", "-mfma"],
    "avx512": [
        *("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"),
        # Not every processor with AVX-512 has its instructions for bfloat16: the kernels ask for
        # them when they run. Compilers never choose them for other code.
        "-mavx512bf16",
        "-mprefer-vector-width=512",
    ],
}


def kernels(instruction_set: str, flags: list[str]) -> Extension:
    return Extension(
        f"graphut.attention.native._{instruction_set}",
        [f"{NATIVE}/kernels.cpp"],
        depends=glob(f"{NATIVE}/*.h"),
        extra_compile_args=["-std=c++17", "-O3", "-g0", "-fopenmp", *flags],
        extra_link_args=["-fopenmp"],
        language="c++",
        py_limited_api=True,  # nothing of Python is in them: one build serves all versions
        optional=True,
    )


class BuildKernels(build_ext):
    """Build each extension in its own folder, because builds run in parallel.

    Retry without OpenMP (one thread) if the compiler lacks it. Write the checksums of the builds:
    a damaged file could crash the process that loads it.
    """

    def run(self) -> None:
        super().run()
        paths = [Path(self.get_ext_fullpath(ext.name)) for ext in self.extensions]
        built = [path for path in paths if path.exists()]
        lines = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built]
        if built:
            built[0].with_name("kernels.sha256").write_text("".join(lines))

    def build_extension(self, ext: Extension) -> None:
        own = copy(self)
        # All are made of one source: in one folder they would write one object file.
        own.build_temp = os.path.join(self.build_temp, ext.name)
        try:
            build_ext.build_extension(own, ext)
        except (CompileError, LinkError) as error:
            self.warn(f"{error}: {ext.name} is built once more, without OpenMP, for one thread")
            ext.extra_compile_args.remove("-fopenmp")
            ext.extra_link_args.remove("-fopenmp")
            build_ext.build_extension(own, ext)


on_x86 = platform.machine().lower() in ("x86_64", "amd64")
builds = {"base": [], **(X86 if on_x86 else {})}
setup(
    ext_modules=[kernels(name, flags) for name, flags in builds.items()],
    cmdclass={"build_ext": BuildKernels},
)
