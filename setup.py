"""Build of the compiled modules; everything else is in pyproject.toml.

Environment variables choose the build:

MDVPF_DEBUG=1
    No optimisation; Cython checks bounds, indices and divisions.
MDVPF_SANITIZE=1
    Address and undefined-behaviour sanitizers (GCC or Clang); see `make sanitize`.
MDVPF_COVERAGE=1
    Count the lines that run (GCC); see `make coverage-core`.
MDVPF_PURE=1
    Compile nothing. The Makefile installs the package in this way and compiles it afterwards.
"""

import os
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

HERE = Path(__file__).resolve().parent
DEBUG = os.environ.get("MDVPF_DEBUG", "0") != "0"
SANITIZE = os.environ.get("MDVPF_SANITIZE", "0") != "0"
COVERAGE = os.environ.get("MDVPF_COVERAGE", "0") != "0"
PURE = os.environ.get("MDVPF_PURE", "0") != "0"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "cdivision": not DEBUG,
    "initializedcheck": DEBUG,
    "nonecheck": DEBUG,
    "embedsignature": False,
}

WARNINGS = ["-Wall", "-Wextra"]
# -ffp-contract=off: no fused multiply-add, so that results are the same on every machine.
OPTIMISED = ["-O3", "-ffp-contract=off"]
UNOPTIMISED = ["-O0", "-g", "-ffp-contract=off"]
SANITIZERS = ["-fsanitize=address,undefined"]
SANITIZED = [
    *SANITIZERS,
    "-fno-sanitize-recover=undefined",
    "-fno-wrapv",  # Python's own -fwrapv would hide integer overflows
    "-fno-omit-frame-pointer",
    "-g",
    "-O1",
    "-ffp-contract=off",
]
COVERED = ["--coverage", "-fprofile-update=atomic", "-O0", "-ffp-contract=off"]
MSVC_OPTIMISED = ["/O2", "/fp:precise"]
MSVC_UNOPTIMISED = ["/Od", "/Zi", "/fp:precise"]


# The loop runs in parallel, so that linking fails without the runtime library.
OPENMP_PROBE = """
#include <omp.h>
int main(void) {
    int n = 0;
    #pragma omp parallel for reduction(+:n)
    for (int i = 0; i < 4; i++) n += omp_get_num_threads() > 0;
    return n - 4;
}
"""


class BuildCore(build_ext):
    """Set the options of the compiler, which is known only when the build starts."""

    def has_openmp(self, flag):
        """Whether a program with OpenMP compiles and links; without, the core is serial."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "probe.c"
            source.write_text(OPENMP_PROBE)
            try:
                objects = self.compiler.compile(
                    [str(source)], output_dir=folder, extra_postargs=[flag]
                )
                self.compiler.link_executable(
                    objects, str(Path(folder) / "probe"), extra_postargs=[flag]
                )
            except (CompileError, LinkError):
                return False
        return True

    def build_extensions(self):
        msvc = self.compiler.compiler_type == "msvc"
        openmp = "/openmp" if msvc else "-fopenmp"
        has_openmp = self.has_openmp(openmp)
        for extension in self.extensions:
            if msvc:
                extension.extra_compile_args = MSVC_UNOPTIMISED if DEBUG else MSVC_OPTIMISED
            elif SANITIZE:
                extension.extra_compile_args = WARNINGS + SANITIZED
                extension.extra_link_args = list(SANITIZERS)
            elif COVERAGE:
                extension.extra_compile_args = WARNINGS + COVERED
                extension.extra_link_args = ["--coverage"]
            else:
                extension.extra_compile_args = WARNINGS + (UNOPTIMISED if DEBUG else OPTIMISED)
            if has_openmp:
                extension.extra_compile_args.append(openmp)
                if not msvc:
                    extension.extra_link_args.append(openmp)
        super().build_extensions()


def extensions():
    """Return an extension for every .pyx, translated to C if a source or this file is newer."""
    sources = sorted(path.relative_to(HERE) for path in HERE.glob("mdvpf/**/*.pyx"))
    depends = sorted(path.relative_to(HERE).as_posix() for path in HERE.glob("mdvpf/**/*.pxd"))
    # A folder for each set of directives, since Cython only compares modification times.
    folder = "build/cython-debug" if DEBUG else "build/cython"
    translated = [HERE / folder / source.with_suffix(".c") for source in sources]
    written = Path(__file__).stat().st_mtime
    return cythonize(
        [
            Extension(".".join(source.with_suffix("").parts), [source.as_posix()], depends=depends)
            for source in sources
        ],
        build_dir=folder,
        compiler_directives=DIRECTIVES,
        force=any(each.exists() and each.stat().st_mtime < written for each in translated),
        quiet=True,
    )


setup(
    ext_modules=[] if PURE else extensions(),
    cmdclass={"build_ext": BuildCore},
    # Modification times do not show whether a build was a debug build, so always compile.
    options={"build_ext": {"force": True, "parallel": True}},
)
