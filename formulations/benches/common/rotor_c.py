"""CPU seconds of Rotor's compiled dynamic program: rotor_c.py MODULE CHAIN.json UNIT SLOTS.

Sizes are rounded up to whole slots, as Rotor does. Its releases name the chain's attributes differently; the chain
has all names.
"""

import importlib.util
import json
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace

NAMES = {
    "fweight": ["forward_durations", "fweight", "fweigth"],
    "bweight": ["backward_durations", "bweight", "bweigth"],
    "cweight": ["activation_sizes", "cweight", "cweigth"],
    "cbweight": ["activation_total_usages", "cbweight", "cbweigth"],
    "ftmp": ["forward_memory_tmp_sizes", "fwd_mem_tmp", "fwd_tmp"],
    "btmp": ["backward_memory_tmp_sizes", "bwd_mem_tmp", "bwd_tmp"],
}

path, file, unit, slots = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
spec = importlib.util.spec_from_file_location(re.match(r"\w+", Path(path).name).group(), path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

arrays = json.loads(Path(file).read_text())["chain"]
length = len(arrays["cweight"]) - 1
chain = SimpleNamespace(length=length)
for key, names in NAMES.items():
    # The loss is a stage of its own, without size and time.
    wanted = length + 2 if key in ("cweight", "cbweight") else length + 1
    values = (arrays[key] + [0, 0])[:wanted]
    if key in ("fweight", "bweight"):
        values = [float(value) for value in values]
    else:
        values = [-(-int(value) // unit) for value in values]
    for name in names:
        setattr(chain, name, values)
started = time.process_time()
module.persistent_compute_table(chain, slots)
print(time.process_time() - started)
