"""What becomes of a joint graph: storages, operators, roles, links."""

import copy

import pytest
import torch

from remat_profiler import Example, check
from remat_profiler.capture import MARK, Request, capture
from remat_profiler.errors import ProfilerError
from remat_profiler.job import Job, traced_with
from remat_profiler.models import builder
from remat_profiler.trace import trace as trace_captured

from .conftest import document_of, trace_of
from .splitting import SEVERAL_VIEWS, Parts


def by_name(trace):
    return {operator.name: operator for operator in trace.operators}


def tensor(trace, name):
    (found,) = [storage for storage in trace.storages if storage.name == name]
    return found


def test_a_conv_bn_relu_chain_has_exactly_its_operators(small):
    forward = [op.name for op in small.operators if op.phase == "forward"]
    loss = [op.name for op in small.operators if op.phase == "loss"]
    backward = [op.name for op in small.operators if op.phase == "backward"]
    assert forward == ["0", "1", "2", "3", "5"]
    assert loss == ["loss.log_softmax", "loss.nll_loss_forward"]
    assert backward == [
        "loss.nll_loss_forward.backward", "loss.log_softmax.backward",
        "5.backward.mm", "5.backward.mm_1", "5.backward.sum",
        "3.backward", "2.backward", "1.backward", "0.backward",
    ]


def test_bytes_are_those_of_the_storages(small):
    sizes = {storage.name: storage.value.nbytes for storage in small.storages}
    images, features = 4 * 3 * 8 * 8 * 4, 4 * 8 * 8 * 8 * 4
    assert sizes["images"] == images and sizes["labels"] == 4 * 8
    assert sizes["0"] == sizes["1"] == sizes["2"] == sizes["3.backward"] == features
    assert sizes["1.save_mean"] == sizes["1.save_rstd"] == 8 * 4
    assert sizes["3"] == 4 * 8 * 4 and sizes["5"] == 4 * 10 * 4
    assert sizes["loss.nll_loss_forward"] == 4
    assert sizes["0.weight.grad"] == 8 * 3 * 9 * 4 and sizes["5.weight.grad"] == 8 * 10 * 4
    assert sum(sizes.values()) == 54512, "summed by hand"
    assert small.parameter_bytes == (8 * 3 * 9 + 8 + 8 + 80 + 10) * 4
    assert small.buffer_bytes == (8 + 8) * 4 + 8


def test_views_are_folded_into_their_storage(small):
    operators = by_name(small)
    # flatten, transposes and the expand of the mean's backward are no operators and make no tensors
    assert operators["5"].inputs == [tensor(small, "3").id]
    assert operators["3.backward"].inputs == [tensor(small, "5.backward.mm").id]
    assert operators["5.backward.mm_1"].inputs == sorted(
        [tensor(small, "3").id, tensor(small, "loss.log_softmax.backward").id]
    )
    assert not {"aten.view.default", "aten.t.default", "aten.expand.default", "aten.alias.default",
                "aten.detach.default"} & {str(op.node.target) for op in small.operators}


@pytest.mark.parametrize("name", SEVERAL_VIEWS)
def test_what_splits_a_tensor_makes_views_of_it(name):
    wanted = Job("python:parts", 2, (5,), "model:v100", "cpu")
    trace = traced_with(wanted, lambda: Parts(SEVERAL_VIEWS[name]))
    forward = [str(op.node.target) for op in trace.operators if op.phase == "forward"]
    assert forward == ["aten.addmm.default", "aten.sin.default", "aten.mul.Tensor", "aten.addmm.default"]
    sine, product = trace.operators[1], trace.operators[2]
    whole = trace.operators[0].outputs
    assert sine.inputs == whole and product.inputs == sorted(whole + sine.outputs)
    assert [trace.storages[id].value.nbytes for id in whole] == [2 * 12 * 4], "once, and no part of it a second time"
    # Readers have another shape than the storage, which only an attribute says.
    assert document_of(trace)["operators"][sine.id]["attributes"]["self_shape"] == [2, 4]
    assert check.problems(document_of(trace)) == []


def test_a_network_may_read_more_than_one_input_and_regress():
    class Two(torch.nn.Module):
        more_inputs = {"scale": ((), torch.float32), "words": ((3,), torch.int64)}
        regresses = True

        def __init__(self):
            super().__init__()
            self.layer, self.embedding = torch.nn.Linear(4, 3), torch.nn.Embedding(7, 3)

        def forward(self, x, scale, words):
            return self.layer(x) * scale[:, None] + self.embedding(words).sum(1)

    trace = traced_with(Job("python:two", 5, (4,), "model:v100", "cpu"), Two)
    inputs = {name: tuple(node.meta["val"].shape) for node, name in trace.capture.inputs.items()}
    assert inputs == {"images": (5, 4), "scale": (5,), "words": (5, 3), "labels": (5, 3)}
    loss = [str(op.node.target) for op in trace.operators if op.phase == "loss"]
    assert loss == ["aten.mse_loss.default"]
    made = document_of(trace)
    assert made["provenance"]["input_shapes"] == [[5, 4], [5], [5, 3], [5, 3]] and check.problems(made) == []


def test_kinds_follow_from_who_makes_and_who_reads(small):
    kinds = {storage.name: storage.kind for storage in small.storages}
    assert kinds["images"] == kinds["labels"] == "input"
    assert kinds["0"] == kinds["2"] == kinds["loss.log_softmax"] == "activation"
    assert kinds["1.save_mean"] == kinds["loss.nll_loss_forward.total_weight"] == "saved"
    assert kinds["loss.nll_loss_forward"] == "output"
    assert kinds["1.backward.grad_input"] == "gradient"
    gradients = {storage.name for storage in small.storages if storage.kind == "param_gradient"}
    assert gradients == {f"{name}.grad" for name in small.capture.parameters.values()}


def test_batch_norm_updates_state_and_running_statistics_are_no_tensors(small):
    norm = by_name(small)["1"]
    assert norm.updates_state and len(norm.outputs) == 3
    assert [op.name for op in small.operators if op.updates_state] == ["1"]
    assert not [op for op in small.operators if op.phase == "forward" and "aten.add." in str(op.node.target)]
    written = document_of(small)["operators"][norm.id]["implementations"]
    assert [i["name"] for i in written] == ["default", "recompute"]
    assert written[1] == written[0] | {"name": "recompute", "recompute": True}


def traced_loss(module, loss, x):
    return traced_with(Job("python:test", *x.shape[:1], tuple(x.shape[1:]), "flops"), lambda: copy.deepcopy(module), Example(loss, (x,)))


def test_a_second_trace_in_a_process_finds_the_same_bytes():
    """Fake tensors that come from torch's cache may have smaller storages than those that were there first."""
    def update(net, x):
        h = net(x) * 1
        h[:, 1:] += x[:, :-1]
        return h.square().mean()

    net, x = torch.nn.Linear(64, 64), torch.zeros(20, 64)
    first, second = (document_of(traced_loss(net, update, x)) for _ in range(2))
    assert first == second


def test_the_conjugate_of_a_number_is_a_literal():
    def turn(net, x):
        return (net(x) * torch.exp(1j * net.bias)).abs().mean()

    document = document_of(traced_loss(torch.nn.Linear(8, 8), turn, torch.zeros(4, 8)))
    assert check.problems(document) == []


def test_dropout_is_random_and_relu_is_not():
    trace = trace_of("toy:dropout-mlp", 4, (16,))
    assert [op.name for op in trace.operators if op.random] == ["2"]
    assert tensor(trace, "2.mask").kind == "saved"
    assert check.problems(document_of(trace)) == []


def test_every_backward_operator_differentiates_one_or_is_a_sum_of_gradients(resnet18):
    for operator in resnet18.operators:
        if operator.phase != "backward":
            assert operator.differentiates is None
        elif operator.differentiates is None:
            assert str(operator.node.target) == "aten.add.Tensor", operator.name
            assert operator.name.endswith("grad_sum")
    sums = [op for op in resnet18.operators if op.phase == "backward" and op.differentiates is None]
    assert len(sums) == 8, "one for each residual block, at its input"


def test_backward_links_agree_with_shared_operands(resnet18):
    expected = {
        "aten.convolution_backward.default": "aten.convolution.default",
        "aten.native_batch_norm_backward.default": "aten._native_batch_norm_legit_functional.default",
        "aten.threshold_backward.default": "aten.relu.default",
        "aten.max_pool2d_with_indices_backward.default": "aten.max_pool2d_with_indices.default",
        "aten.nll_loss_backward.default": "aten.nll_loss_forward.default",
        "aten._log_softmax_backward_data.default": "aten._log_softmax.default",
        "aten.mm.default": "aten.addmm.default",
        "aten.sum.dim_IntList": "aten.addmm.default",
        "aten.div.Scalar": "aten.mean.dim",
    }
    for operator in resnet18.operators:
        if operator.differentiates is None:
            continue
        forward = resnet18.operators[operator.differentiates]
        assert str(forward.node.target) == expected[str(operator.node.target)]
        if str(operator.node.target) == "aten.convolution_backward.default":
            assert operator.node.args[2] is forward.node.args[1], "the same weight"
            assert operator.node.args[1] is forward.node.args[0], "the same input"
        if "norm" in str(operator.node.target) or "threshold" in str(operator.node.target):
            own = set(forward.inputs) | set(forward.outputs)
            assert own & set(operator.inputs), f"{operator.name} reads nothing of {forward.name}"


def test_operands_read_for_their_shape_only_are_no_inputs(resnet18):
    operators = by_name(resnet18)
    pool, norm = operators["maxpool.backward"], operators["bn1.backward"]
    assert tensor(resnet18, "maxpool.indices").id in pool.inputs
    assert tensor(resnet18, "relu").id not in pool.inputs
    assert len(norm.inputs) == 4, "gradient, input, mean and rstd; no running statistics"


def test_names_are_unique_and_readable(resnet18):
    names = [op.name for op in resnet18.operators]
    assert len(set(names)) == len(names)
    tensors = [storage.name for storage in resnet18.storages]
    assert len(set(tensors)) == len(tensors)
    assert {"layer1.0.conv1", "layer1.0.relu", "layer1.0.relu_1", "layer1.0.add", "layer1.0.bn1.backward",
            "layer2.0.downsample.0.backward", "fc.backward.mm"} <= set(names)
    assert {"layer1.0.conv1.weight.grad", "layer1.0.bn1.save_mean", "maxpool.indices"} <= set(tensors)


def test_the_instance_checks_and_a_broken_one_does_not(resnet18):
    made = document_of(resnet18)
    assert check.problems(made) == []
    assert made["order"] == sorted(made["order"])
    made["order"][3], made["order"][4] = made["order"][4], made["order"][3]
    assert any("before it is there" in problem for problem in check.problems(made))


def test_store_all_of_a_hand_computed_instance():
    made = {
        "fixed_bytes": {"parameters": 100},
        "tensors": [{"id": 0, "bytes": 10, "kind": "input"}, {"id": 1, "bytes": 20, "kind": "activation"},
                    {"id": 2, "bytes": 5, "kind": "output"}, {"id": 3, "bytes": 7, "kind": "param_gradient"}],
        "operators": [
            {"id": 0, "name": "f", "inputs": [0], "outputs": [1], "implementations": [{"time": 3}]},
            {"id": 1, "name": "l", "inputs": [1], "outputs": [2], "implementations": [{"time": 4, "workspace_bytes": 50}]},
            {"id": 2, "name": "b", "inputs": [0, 1], "outputs": [3], "implementations": [{"time": 5}]},
        ],
        "order": [0, 1, 2],
    }
    summary = check.store_all(made)
    assert (summary.time_ns, summary.peak_bytes, summary.peak_operator) == (12, 185, "l")


def test_a_network_without_logits_is_refused():
    with pytest.raises(ProfilerError, match="3 channels"):
        trace_of("torchvision:resnet18", 1, (4, 32, 32))


def test_an_lstm_is_refused_where_it_is_one_operator_and_traced_where_it_is_several():
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.last = torch.nn.LSTM(4, 4, batch_first=True), torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.last(self.lstm(x)[0][:, -1])

    wanted, threads = Job("python:recurrent", 2, (5, 4), "model:v100", "cpu"), torch.get_num_threads()
    torch.set_num_threads(2)  # with one torch does not ask oneDNN
    try:
        with pytest.raises(ProfilerError, match="nn.LSTM runs as one operator of oneDNN"):
            traced_with(wanted, Recurrent)
        with torch.backends.mkldnn.flags(enabled=False):
            assert check.problems(document_of(traced_with(wanted, Recurrent))) == []
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("model,shape", [
    ("torchvision:vgg11", (3, 64, 64)), ("torchvision:mobilenet_v2", (3, 64, 64)),
    ("torchvision:googlenet", (3, 64, 64)), ("torchvision:vit_b_16", (3, 224, 224)),
])
def test_other_networks_trace_and_check(model, shape):
    made = document_of(trace_of(model, 2, shape))
    assert check.problems(made) == []


@pytest.mark.slow
def test_resnet1001_at_batch_8_traces_in_little_memory():
    import subprocess
    import sys

    code = (
        "import resource\n"
        "from remat_profiler.job import Job, traced\n"
        "trace = traced(Job('preact:resnet1001', 8, (3, 224, 224), 'model:v100', 'cpu'))\n"
        "print(len(trace.operators), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    operators, kilobytes = map(int, done.stdout.split())
    assert operators == 6686 and kilobytes < 2_000_000


def test_a_machine_without_gpu_falls_back_to_cpu_tensors_and_says_so():
    trace = trace_of("toy:conv-bn-relu", 2, (3, 8, 8), "auto")
    if torch.cuda.is_available():
        assert trace.capture.trace_device == "cuda"
    else:
        assert trace.capture.trace_device == "cpu"
        assert any("fake cuda tensors here" in note for note in trace.notes)
    notes = document_of(trace)["provenance"]["notes"]
    assert any("traced for a CPU" in note for note in notes) == (trace.capture.trace_device == "cpu")


def test_nodes_without_a_number_are_linked_to_nothing():
    """A backward node without one was linked to the first forward node that had none either."""
    captured = capture(Request(builder("toy:conv-bn-relu"), 4, (3, 8, 8)), "cpu")
    first = next(node for node in captured.graph_module.graph.nodes if node.op == "call_function")
    backward = next(node for node in captured.graph_module.graph.nodes if "threshold_backward" in str(node.target))
    del first.meta["seq_nr"], backward.meta["seq_nr"]
    backward.meta["custom"] = {MARK: {"seen": True}}
    relu = next(op for op in trace_captured(captured).operators if op.node is backward)
    assert relu.differentiates is None
