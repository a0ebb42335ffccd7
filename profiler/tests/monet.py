"""Reads the P100 profile of MONeT's authors, third-party data that is not part of the repository.

`BENCH_REFERENCE_DATA` names the folder that holds `monet-p100/`; its README describes the files.
"""

import gzip
import json
import os
from pathlib import Path

import pytest

from remat_profiler.convolutions import BACKWARD_DATA, BACKWARD_FILTER, FORWARD, Convolution

VARIABLE = "BENCH_REFERENCE_DATA"
# The order in which MONeT's profiler lists the algorithms.
ORDER = {
    FORWARD: ("GEMM", "FFT", "FFT_TILING", "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "DIRECT", "WINOGRAD",
              "WINOGRAD_NONFUSED"),
    BACKWARD_DATA: ("ALGO_0", "ALGO_1", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"),
    BACKWARD_FILTER: ("ALGO_0", "ALGO_1", "FFT", "ALGO_3", "WINOGRAD_NONFUSED", "FFT_TILING"),
}
NETWORKS = {"resnet50": (184, (224, 224)), "vgg16": (176, (224, 224)), "un": (11, (416, 608))}


def graph(name):
    """One file of the profile, or a skipped test that says why."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"{VARIABLE} is not set: MONeT's P100 profile is third-party data and not in the repository")
    path = Path(folder) / "monet-p100" / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"'{path}' does not exist")
    return json.loads(gzip.decompress(path.read_bytes()))


def profile(network):
    """`(convolution, algorithm) -> (milliseconds or None where it failed, workspace in MiB)`."""
    batch, size = NETWORKS[network]
    found_graph = graph(f"{network}_{batch}_inplace_conv_normal")
    nodes = {node["id"]: node for node in found_graph["nodes"]}
    found = {}
    for node in nodes.values():
        if node["op"] == "aten::_convolution_param_grad":
            found[node["fwd_node"]] = _convolution(nodes[node["fwd_node"]], node, nodes, batch, size)
    rows = {}
    for id in found_graph["conv_list"]:
        node = nodes[id]
        direction = FORWARD if node["kind"] == "forward" else BACKWARD_FILTER if "param" in node["op"] else BACKWARD_DATA
        if direction == BACKWARD_DATA and max(node["ms"]) < 0.01:
            continue  # the first convolution of a network: nothing is computed
        convolution = Convolution(direction, *found[id if direction == FORWARD else node["fwd_node"]])
        for algorithm, ms, workspace in zip(ORDER[direction], node["ms"], node["ws_mib"]):
            rows[convolution, algorithm] = (ms if ms > 0 else None, workspace)
    return rows


def _convolution(forward, backward, nodes, batch, size):
    """Kernel and stride follow from shapes and the bytes of the parameter gradient; all pad by half."""
    shape = nodes[forward["inbound"][0]]["shape"] if forward["inbound"] else [-1, 3, *size]
    channels, filters = shape[1], forward["shape"][1]
    kernel = round((backward["stored_param_grad_bytes"] // 4 // (channels * filters)) ** 0.5)
    stride = round(shape[2] / forward["shape"][2])
    source = (batch, channels, *shape[2:])
    return source, (filters, channels, kernel, kernel), (stride,) * 2, (kernel // 2,) * 2, (1, 1), 1, "float32"
