"""Metadata and requirements are in setup.cfg; here are the compiled kernels.

The kernels have a C interface and are loaded by ctypes, so one build works with every torch. They
are compiled for the instruction set of this processor, and kept in the folder `build` for the next
installation. With GRAPHUT_KERNELS=all they are compiled for every instruction set, as a wheel for
other machines needs; graphut loads the widest that the processor supports. Without a compiler
graphut installs all the same, and is slower.
"""

import os
import platform
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from hashlib import sha256
from pathlib import Path
from shutil import copyfile

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

NATIVE = "graphut/attention/native"
AVX2 = ["avx2", "fma"]
AVX512 = ["avx512f", "avx512dq", "avx512bw", "avx512vl", "fma"]
X86 = {
    "base": [],
    "avx2": [f"-m{name}" for name in AVX2],
    "avx512": [
        *(f"-m{name}" for name in AVX512),
        # Not every processor with AVX-512 has its instructions for bfloat16: the kernels ask for
        # them when they run. Compilers never choose them for other code.
        "-mavx512bf16",
        "-mprefer-vector-width=512",
    ],
}


def instruction_sets() -> dict[str, list[str]]:
    """Return the flags of the compiler by the name of each instruction set to compile for."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return {"base": []}
    processor = Path("/proc/cpuinfo")
    if os.environ.get("GRAPHUT_KERNELS") == "all" or not processor.exists():
        return X86
    flags = set(processor.read_text().split())
    widest = "avx512" if flags >= {*AVX512} else "avx2" if flags >= {*AVX2} else "base"
    return {widest: X86[widest]}


def kernels(instruction_set: str, flags: list[str]) -> Extension:
    return Extension(
        f"graphut.attention.native._{instruction_set}",
        sorted(glob(f"{NATIVE}/*.cpp")),
        depends=sorted(glob(f"{NATIVE}/*.h")),
        extra_compile_args=["-std=c++17", "-O3", "-g0", "-fopenmp", *flags],
        extra_link_args=["-fopenmp"],
        language="c++",
        py_limited_api=True,  # nothing of Python is in them: one build serves all versions
        optional=True,
    )


class BuildKernels(build_ext):
    """Compile the sources at the same time, and take a build that is there already.

    Retry without OpenMP (one thread) if the compiler lacks it.
    """

    def build_extension(self, ext: Extension) -> None:
        path = Path(self.get_ext_fullpath(ext.name))
        sources = [Path(name).read_bytes() for name in (*ext.sources, *ext.depends)]
        parts = [*sources, repr((ext.extra_compile_args, self.compiler.compiler_so)).encode()]
        digest = sha256(b"".join(parts)).hexdigest()[:16]
        kept = Path("build", "kernels", digest, path.name)
        if not kept.exists():
            try:
                self.compile(ext, kept)
            except (CompileError, LinkError) as error:
                self.warn(f"{error}: {ext.name} is built once more, without OpenMP, for one thread")
                ext.extra_compile_args.remove("-fopenmp")
                ext.extra_link_args.remove("-fopenmp")
                self.compile(ext, kept)
        path.parent.mkdir(parents=True, exist_ok=True)
        copyfile(kept, path)

    def compile(self, ext: Extension, library: Path) -> None:
        def compile_one(source: str) -> list[str]:
            folder, options = str(library.parent), ext.extra_compile_args
            return self.compiler.compile([source], output_dir=folder, extra_postargs=options)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = [name for names in pool.map(compile_one, ext.sources) for name in names]
        unfinished = library.with_suffix(".part")  # a stopped build must not be taken
        self.compiler.link_shared_object(
            objects, str(unfinished), extra_postargs=ext.extra_link_args, target_lang="c++"
        )
        unfinished.replace(library)


setup(
    ext_modules=[kernels(name, flags) for name, flags in instruction_sets().items()],
    cmdclass={"build_ext": BuildKernels},
)
