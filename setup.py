"""Builds the hot loops with Cython where a C compiler works; without one the plain modules serve."""

import os

from setuptools import setup
from setuptools.command.build_ext import build_ext

# Strict floating point: no fused multiply-add, so that plain and compiled give the same bits.
FLAGS = ["-O3", "-ffp-contract=off"]
INLINE = [
    "--param=max-inline-insns-single=3000",
    "--param=inline-unit-growth=900",
    "--param=large-function-growth=3000",
    "--param=large-function-insns=30000",
    "--param=large-stack-frame-growth=9000",
]

KERNELS = {
    # loops over a few states and channels, which vector instructions only slow down: 90 ns a step against 77
    "understudy.transform._kernels": [*FLAGS, "-fno-tree-vectorize"],
    # four steps in a pass touch ten places; gcc by default gives up where so many might overlap
    "understudy.transform._kernels_many": [*FLAGS, "--param=vect-max-version-for-alias-checks=50"],
    "understudy.transform._kernels_hidden": FLAGS,
    # square roots in a loop without branches, which vector instructions do as well as the library's
    "understudy.transform._kernels_rounded": [*FLAGS, "-fno-math-errno"],
    # loops over a few experts, with square roots in them
    "understudy.models._kernels_adaptive": [*FLAGS, "-fno-math-errno"],
    # short loops in functions that are given a dozen views of 200 bytes each: put together, none is copied
    "understudy.randomizer._kernels": [*FLAGS, *INLINE],
    # loops over a few states, as in the transformation
    "understudy.identify._kernels": [*FLAGS, "-fno-tree-vectorize"],
}

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "annotation_typing": False,
    "cdivision": True,
}


def extensions():
    """The compiled kernels, or nothing when UNDERSTUDY_PURE=1."""
    if os.environ.get("UNDERSTUDY_PURE") == "1":
        return []
    from Cython.Build import cythonize
    from setuptools import Extension

    sources = [
        Extension(name, [f"src/{name.replace('.', '/')}.py"], extra_compile_args=flags)
        for name, flags in KERNELS.items()
    ]
    built = cythonize(sources, compiler_directives=DIRECTIVES, build_dir="build/cython")
    for extension in built:
        extension.optional = True  # cythonize drops the flag when it is set on what goes in
    return built


class BuildFresh(build_ext):
    """Never leaves an older extension standing where a new one could not be built."""

    def finalize_options(self):
        """Compile the kernels side by side."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, ext):
        """Remove what an earlier build left, then compile."""
        old = [self.get_ext_fullpath(ext.name)]
        if self.inplace or getattr(self, "editable_mode", False):
            old.append(os.path.join("src", self.get_ext_filename(ext.name)))
        for path in old:
            if os.path.exists(path):
                os.remove(path)
        super().build_extension(ext)


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildFresh})
