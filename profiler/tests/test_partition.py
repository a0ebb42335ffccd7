"""`torch-mincut` and `torch-budget` of `bench` against PyTorch's own partitioner, node by node.

Networks are traced with the decompositions that Inductor gives to the partitioner, on fake CPU tensors. The joint graph
that PyTorch cuts becomes an instance operator by operator, views and all, and both say what they save. PyTorch's lists of
operators are held against the installed PyTorch too.
"""

import re
import subprocess

import pytest
import torch
import torch._inductor.lowering  # noqa: F401  (some decompositions look for it)
from functorch.compile import aot_function
from torch._functorch import config, partitioners
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensorMode

from remat_profiler import capture, instance
from remat_profiler.models import builder

from .replaying import CHECKOUT, required_bench

NETWORKS = {
    "resnet18": ("torchvision:resnet18", 2, (3, 64, 64)),
    "resnet50": ("torchvision:resnet50", 2, (3, 64, 64)),
    "unet": ("unet:original", 1, (3, 188, 188)),
    "gpt2": ("transformers:gpt2", 1, (16,)),
    "vit": ("torchvision:vit_b_16", 1, (3, 224, 224)),
}
BUDGETS = (0.2, 0.5, 0.8)


class Partitioned(Exception):
    """What PyTorch's partitioner was given, and what it saves with each budget."""

    def __init__(self, graph, info, saved):
        super().__init__("partitioned")
        self.graph, self.info, self.saved = graph, info, saved


def partitioned(model, batch, shape, budgets, free_parameters):
    """The joint graph as PyTorch cuts it, and the saved nodes for each budget."""
    choose = partitioners.choose_saved_values_set

    def all_of_them(graph, info, memory_budget=1):
        raise Partitioned(graph, info, {budget: choose(graph, info, budget) for budget in budgets})

    def partition(module, inputs, *, num_fwd_outputs, static_lifetime_input_indices=None, **_):
        static = static_lifetime_input_indices if free_parameters else []
        return partitioners.min_cut_rematerialization_partition(
            module, inputs, num_fwd_outputs=num_fwd_outputs, static_lifetime_input_indices=static)

    def never(_module, _inputs):
        raise AssertionError("the partitioner comes first")

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    network = capture._built(builder(model), mode, "cpu").train()
    with mode, pytest.MonkeyPatch.context() as patched:
        patched.setattr(partitioners, "choose_saved_values_set", all_of_them)
        state = dict(network.named_parameters()) | dict(network.named_buffers())
        tokens = getattr(network, "takes_tokens", False)
        x = torch.zeros(batch, *shape, dtype=torch.int64 if tokens else torch.float32)

        def step(*arguments):
            logits = torch.func.functional_call(network, dict(zip(state, arguments)), arguments[len(state):])
            logits = logits[0] if isinstance(logits, tuple) else logits
            return torch.nn.functional.cross_entropy(logits, torch.zeros_like(logits[:, 0], dtype=torch.int64))

        traced = aot_function(step, fw_compiler=never, bw_compiler=never, partition_fn=partition,
                              decompositions=select_decomp_table(), num_params_buffers=len(state))
        with pytest.raises(Partitioned) as caught:
            traced(*state.values(), x)
    return caught.value


def as_instance(name, cut, free_parameters):
    """The joint graph as an instance: an operator for each node, the forward pass first, in PyTorch's order."""
    graph, info = cut.graph, cut.info
    (returned,) = next(node for node in graph.nodes if node.op == "output").args
    parameters = info.static_lifetime_input_nodes if free_parameters else set()
    tensors, operators, tensor_of = [], [], {}

    def tensor(node, value, kind):
        tensors.append({"id": len(tensors), "name": node.name, "kind": kind, "shape": list(value.shape),
                        "bytes": value.numel() * value.dtype.itemsize})
        tensor_of[node] = len(tensors) - 1
        return len(tensors) - 1

    def kind_of(node, forward):
        if node in returned:
            return "output" if forward else "param_gradient"
        return "activation" if forward else "gradient"

    def operator(node, op_type, outputs, attributes):
        reads = [tensor_of[read] for read in node.all_input_nodes if read not in parameters]
        operators.append({
            "id": len(operators), "name": node.name, "op_type": op_type, "inputs": sorted(set(reads)), "outputs": outputs,
            "phase": "forward" if info.is_required_fw(node) else "backward", "attributes": attributes,
            "implementations": [{"name": "default", "time": 1}]})

    loss = next(node for node in returned if node is not None and node.meta["val"].dim() == 0 and info.is_required_fw(node)
                and node.meta["val"].is_floating_point())
    for node in sorted(graph.nodes, key=lambda node: (not info.is_required_fw(node), node.op != "placeholder")):
        value = node.meta.get("val")
        if node.op == "placeholder" and node not in info.tangents_closure:
            if node not in parameters:
                tensor(node, value, "input")
        elif node.op == "placeholder":
            operator(node, "tangent", [tensor(node, value, "gradient")], {})
            operators[-1]["differentiates"] = next(made["id"] for made in operators if made["name"] == loss.name)
        elif node.op == "call_function" and node not in tensor_of:
            attributes = {}
            shapes = [list(read.meta["val"].shape) if isinstance(read, torch.fx.Node) else None for read in node.args[:3]]
            op_type = str(node.target)
            if op_type.startswith("aten.convolution."):
                attributes = {"input_shape": shapes[0], "weight_shape": shapes[1], "transposed": node.args[6]}
            elif op_type in ("aten.mm.default", "aten.bmm.default", "aten.addmm.default", "aten.baddbmm.default"):
                attributes = {"mat2_shape": shapes[2 if "add" in op_type else 1]}
            if isinstance(value, (tuple, list)):
                parts = sorted(node.users, key=lambda part: part.args[1])
                outputs = [tensor(part, value[part.args[1]], kind_of(part, info.is_required_fw(node))) for part in parts]
                assert len(outputs) > 1 or node in info.tangents_closure, f"{node}: one result of several is read"
            else:
                outputs = [tensor(node, value, kind_of(node, info.is_required_fw(node)))]
            operator(node, op_type, outputs, attributes)
            if node is loss:
                operators[-1]["phase"] = "loss"
    exact = {"kind": "exact"}
    return {"format": "remat-instance", "version": 1, "name": name,
            "provenance": {"model": name, "sizes": exact, "times": exact, "workspaces": exact},
            "tensors": tensors, "operators": operators, "order": [made["id"] for made in operators]}


def saved_by(schedule, made):
    """Names of the tensors that the forward pass leaves to what comes after it."""
    by_id = {operator["id"]: operator for operator in made["operators"]}
    names = {tensor["id"]: tensor["name"] for tensor in made["tensors"] if tensor["kind"] != "input"}
    late, made_late, saved = False, set(), set()
    for step in schedule["steps"]:
        if "compute" not in step:
            continue
        operator = by_id[step["compute"]]
        late = late or operator["op_type"] == "tangent"
        if late:
            saved |= set(operator["inputs"]) - made_late
            made_late |= set(operator["outputs"])
    return {names[tensor] for tensor in saved if tensor in names}


def differences(ours, theirs):
    return {"bench alone": sorted(ours - theirs), "PyTorch alone": sorted(theirs - ours)}


@pytest.mark.parametrize("free_parameters", [True, False], ids=["parameters-free", "parameters-paid"])
@pytest.mark.parametrize("network", NETWORKS)
def test_bench_saves_what_pytorch_saves(network, free_parameters, tmp_path):
    binary = required_bench()
    # With parameters left out of the instance, the budget's scale is another: the default is compared, no budget.
    budgets = (1.0,) if free_parameters else (1.0, *BUDGETS)
    cut = partitioned(*NETWORKS[network], budgets, free_parameters)
    made = as_instance(network, cut, free_parameters)
    path, output = tmp_path / "joint.json", tmp_path / "schedule.json"
    instance.write(made, path)
    inputs = set(cut.info.inputs)
    for budget in budgets:
        method = "torch-mincut" if budget == 1.0 else f"torch-budget[b-permille={round(1000 * budget)}]"
        subprocess.run([binary, "solve", "-m", method, path, "-o", output], check=True, capture_output=True)
        theirs = {node.name for node in cut.saved[budget] if node not in inputs}
        assert differences(saved_by(instance.parsed(output), made), theirs) == differences(set(), set()), budget
        assert theirs, "something is saved"


def test_the_lists_of_operators_are_those_of_pytorch():
    text = (CHECKOUT / "formulations/src/planners/torch/operators.txt").read_text()
    sections = {name: set(body.split()) for name, body in
                re.findall(r"\[([a-z-]+)\]\n((?:[^\[#]+\n?)*)", text)}
    lists = partitioners.get_default_op_list()

    def names(operators):
        packets = {str(operator) for operator in operators if isinstance(operator, torch._ops.OpOverloadPacket)}
        return {name for name in packets if not name.endswith("_") or name.endswith("__")}

    views = names(lists.view_ops)
    assert sections["view"] == views
    assert sections["recomputable"] == names(lists.recomputable_ops) - views
    assert sections["random"] == names(lists.random_ops)
    assert sections["compute-intensive"] == names(lists.compute_intensive_ops)
    for switch in ("used_far_apart", "long_fusible_chains", "materialized_backward", "not_in_allowlist", "reductions"):
        assert getattr(config, f"ban_recompute_{switch}")
    assert not config.recompute_views and config.treat_parameters_as_free_to_save and config.max_dist_from_bw == 1000
