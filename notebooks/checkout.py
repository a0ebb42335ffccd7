"""What the notebooks share: where things are, how `bench` is called, how instances and records are read.

Reads `results/` and `instances/`, writes only to temporary folders.
"""

import csv
import io
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import zstandard

ROOT = Path(__file__).resolve().parent.parent
#: Removed when the kernel ends.
SCRATCH = tempfile.TemporaryDirectory(prefix="bench-notebook-")


def program() -> str:
    """The `bench` to call: $BENCH, the newest one built in the target folder, or the one on the path."""
    if named := os.environ.get("BENCH"):
        return named
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / profile / "bench" for profile in ("release", "debug")]
    built = sorted((path for path in built if path.is_file()), key=lambda path: path.stat().st_mtime)
    if built:
        return str(built[-1])
    if found := shutil.which("bench"):
        return found
    raise FileNotFoundError("no bench: run `cargo build --release` first, or set BENCH to the program")


def bench(*arguments, check: bool = True) -> subprocess.CompletedProcess:
    """Calls `bench` in the checkout; raises with its own words where it fails and `check` is given."""
    words = [program(), *map(str, arguments)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"bench {' '.join(words[1:])}: {done.stderr.strip()}")
    return done


def instance(name: str) -> dict:
    """The instance `resnet/resnet50-224-b32`, as docs/reference/formats.md explains it."""
    path = next(ROOT.glob(f"instances/{name}.json*"))
    data = path.read_bytes()
    if path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return json.loads(data)


def solve(name: str, method: str, budget: str) -> tuple[dict, Path]:
    """One run: its row as a dictionary, and the file with its schedule."""
    path = Path(SCRATCH.name) / f"{name}-{method}-{budget}.json".replace("/", "-")
    done = bench("solve", name, "--method", method, "--budget", budget, "--format", "json", "-o", path)
    return json.loads(done.stdout), path


def timeline(name: str, schedule: Path) -> list[dict]:
    """Memory during each step of a schedule, by the simulator."""
    path = Path(SCRATCH.name) / "timeline.csv"
    bench("verify", name, schedule, "--timeline", path)
    return list(csv.DictReader(io.StringIO(path.read_text())))
