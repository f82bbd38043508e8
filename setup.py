"""Builds the native code: the same sources once for each instruction set, in one optional library."""

import platform
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

COMMON = [
    "-std=c++17",
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-Wno-maybe-uninitialized",
]
# The draws are defined bit for bit, so nothing may be fused there; the training step is free to fuse.
SOURCES = {"src/headway/data/draws.cpp": ["-ffp-contract=off"], "src/headway/icl/step.cpp": ["-ffp-contract=fast"]}
HEADERS = ["src/headway/data/lanes.hpp", "src/headway/data/draws.hpp", "src/headway/icl/columns.hpp"]
AVX2 = ["-mavx2", "-mfma"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512"]
SETS = {"base": ["-DHEADWAY_ONCE"]}
if platform.machine().lower() in {"x86_64", "amd64"}:
    SETS |= {"avx2": AVX2, "avx512": AVX512}


class BuildNative(build_ext):
    def build_extension(self, ext: Extension) -> None:
        objects = []
        for name, flags in SETS.items():
            try:
                objects += self._compiled(name, flags)
            except CompileError as error:
                if name == "base":
                    raise
                # An old compiler, or a second architecture in one build: the other bodies do without it.
                print(f"headway: no native code for {name}: {error}", file=sys.stderr)
        target = self.get_ext_fullpath(ext.name)
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        self.compiler.link_shared_object(objects, target, target_lang="c++")

    def _compiled(self, name: str, flags: list[str]) -> list[str]:
        folder = str(Path(self.build_temp, name))
        return [
            made
            for source, own in SOURCES.items()
            for made in self.compiler.compile(
                [source],
                output_dir=folder,
                macros=[("HEADWAY_SET", name)],
                include_dirs=["src/headway/data"],
                extra_postargs=[*COMMON, *own, *flags],
                depends=HEADERS,
            )
        ]


setup(
    ext_modules=[Extension("headway._native", list(SOURCES), depends=HEADERS, optional=True)],
    cmdclass={"build_ext": BuildNative},
)
