"""Builds the planner, `bench`, with cargo and puts it into the package; all else is in pyproject.toml.

Without cargo, or with REMAT_BENCH set, the package comes without it, and says so; `rematplan` then needs REMAT_BENCH.
"""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

CHECKOUT = Path(__file__).resolve().parent.parent


class WithPlanner(build_py):
    """The Python files, and the binary."""

    def run(self) -> None:
        super().run()
        cargo = shutil.which("cargo")
        if os.environ.get("REMAT_BENCH") or cargo is None:
            self.warn("built without the planner: " + ("REMAT_BENCH is set" if cargo else "cargo is not installed"))
            return
        subprocess.run([cargo, "build", "--release", "--locked", "--package", "bench"], cwd=CHECKOUT, check=True)
        built = Path(os.environ.get("CARGO_TARGET_DIR") or CHECKOUT / "target") / "release" / "bench"
        folder = Path(self.build_lib) / "rematplan" / "bin"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(built, folder / "bench")


class ForThisMachine(Distribution):
    """A wheel with a binary is for one platform."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": WithPlanner}, distclass=ForThisMachine)
