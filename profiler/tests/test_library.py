"""The library of every paper's networks: suites, networks of our own, and their published sizes."""

import json
import os
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from remat_profiler import check, instance
from remat_profiler.capture import Request, capture
from remat_profiler.job import Job, run, traced
from remat_profiler.models import FAMILIES, builder
from remat_profiler.suites import SUITES, suite
from remat_profiler.trace import graph_size

ROOT = Path(__file__).parents[2] / "instances"
needs_files = pytest.mark.skipif(not ROOT.is_dir(), reason="the committed instances are not beside the package")
REFERENCE = os.environ.get("BENCH_REFERENCE_DATA")


def forward_outputs(model, batch, shape, op_types):
    """Bytes of the first output of each forward operator of some types, in order."""
    trace = traced(Job(model, batch, shape, "flops", "cpu"))
    return [trace.storages[operator.outputs[0]].value.nbytes for operator in trace.operators
            if operator.phase == "forward" and str(operator.node.target).removesuffix(".default") in op_types]


@needs_files
@pytest.mark.parametrize("name", SUITES)
def test_a_folder_holds_exactly_the_instances_of_its_suite(name):
    committed = {path.name.removesuffix(".json.zst") for path in (ROOT / name).glob("*.json.zst")}
    assert committed == set(suite(name))


@needs_files
@pytest.mark.parametrize("name", SUITES)
def test_committed_instances_are_what_their_jobs_ask_for(name):
    for stem, job in suite(name).items():
        provenance = instance.read(ROOT / name / f"{stem}.json.zst")["provenance"]
        assert provenance["command"] == job.command and provenance["batch_size"] == job.batch


# The cheapest of each suite; resnet has tests of its own.
@needs_files
@pytest.mark.parametrize("folder,name", [
    ("checkmate", "vgg16-224-b256-flops"), ("checkmate", "unet-416x608-b16"), ("kusumoto", "unet-572-b8"),
    ("rotor", "vgg11-224-b32"), ("monet", "vgg16-224-b176"), ("fastsa", "resnet18-224-b512-unit"), ("large", "vit-22b-224-b256"),
])
def test_the_recipe_makes_the_committed_file_again(folder, name, tmp_path):
    path = tmp_path / f"{name}.json.zst"
    run(suite(folder)[name], path)
    made, committed = instance.read(path), instance.read(ROOT / folder / path.name)
    made["provenance"].pop("framework"), committed["provenance"].pop("framework")
    assert made == committed


@needs_files
def test_sizes_and_flops_are_affine_in_the_batch():
    for network in ("vgg19-224", "mobilenet-224", "unet-416x608"):
        small, large = (instance.read(ROOT / "checkmate" / f"{network}-b{batch}-flops.json.zst")
                        for batch in ((16, 32) if "unet" in network else (256, 512) if "mobile" in network else (128, 256)))
        assert [t["name"] for t in small["tensors"]] == [t["name"] for t in large["tensors"]]
        batch = small["provenance"]["batch_size"]
        for few, many in zip(small["tensors"], large["tensors"]):
            growth = many["bytes"] - few["bytes"]  # for as many samples again
            assert growth in (0, few["bytes"]) or growth % batch == 0
        for few, many in zip(small["operators"], large["operators"]):
            assert few["implementations"][0]["time"] <= many["implementations"][0]["time"]


def test_parameter_counts_agree_with_the_publications():
    def parameters(model):
        with FakeTensorMode():
            return sum(parameter.numel() for parameter in builder(model)().parameters())

    assert abs(parameters("keras:vgg16") - 138_357_544) == 0  # keras.applications' tables
    assert abs(parameters("keras:vgg19") - 143_667_240) == 0
    assert abs(parameters("keras:mobilenet") - 4_231_976) == 0  # 4,253,864 with the statistics of batch norm
    assert abs(parameters("unet:original") - 31.03e6) < 0.02e6
    assert 6.9e6 < parameters("chainer:googlenet") - 6.36e6 < 7.1e6  # Szegedy et al.: 6.8 M, and two auxiliary classifiers


@pytest.mark.skipif(not REFERENCE, reason="BENCH_REFERENCE_DATA is not set")
@pytest.mark.parametrize("name,graph,shape", [
    ("keras:vgg16", "vgg16", (3, 224, 224)), ("keras:unet", "unet", (3, 416, 608)), ("keras:fcn8", "fcn8", (3, 416, 608)),
])
def test_layers_have_the_sizes_of_checkmates_public_graphs(name, graph, shape):
    nodes = json.loads((Path(REFERENCE) / "checkmate" / f"{graph}-train.json").read_text())["nodes"]
    layers = [node["cost_ram"] for node in sorted(nodes, key=lambda node: node["id"])
              if not node["backward"] and "conv" in node["name"] or node["name"] in ("fc1", "fc2", "predictions")]
    ours = forward_outputs(name, 256 if graph == "vgg16" else 32, shape, {"aten.convolution", "aten.addmm"})
    assert sorted(ours) == sorted(layers)


@pytest.mark.parametrize("height,width,expected", [(572, 572, (388, 388)), (188, 188, (4, 4))])
def test_the_original_unet_has_the_published_output(height, width, expected):
    with FakeTensorMode():
        assert builder("unet:original")()(torch.empty(1, 3, height, width)).shape == (1, 2, *expected)


def test_the_own_networks_put_out_logits_of_the_published_shapes():
    with FakeTensorMode():
        assert builder("keras:unet")()(torch.empty(2, 3, 416, 608)).shape == (2, 19, 208, 304)
        assert builder("keras:segnet")()(torch.empty(2, 3, 416, 608)).shape == (2, 19, 208, 304)
        assert builder("keras:fcn8")()(torch.empty(2, 3, 416, 608)).shape == (2, 19, 424, 616)
        assert builder("unet:monet")()(torch.empty(2, 3, 416, 608)).shape == (2, 1, 416, 608)
        assert builder("unet:3d")()(torch.empty(2, 1, 48, 80, 80)).shape == (2, 1, 48, 80, 80)
        assert [o.shape for o in builder("chainer:pspnet")()(torch.empty(2, 3, 713, 713))] == [(2, 19, 713, 713)] * 2
        assert [o.shape for o in builder("chainer:googlenet")()(torch.empty(2, 3, 224, 224))] == [(2, 1000)] * 3


@needs_files
def test_the_large_networks_have_the_parameters_of_their_publications():
    parameters = {name: instance.read(ROOT / "large" / f"{name}.json.zst")["fixed_bytes"]["parameters"] // 4
                  for name in suite("large")}
    assert parameters["llama2-70b-2048-b16"] == 68_976_648_192  # of the published checkpoint
    assert parameters["llama3.1-405b-2048-b32"] == 405_853_388_800  # likewise
    assert parameters["sdxl-unet-128-b8"] == 2_567_463_684  # likewise
    assert abs(parameters["m2m100-1.2b-512-b32"] - 1.2e9) < 0.05e9
    assert abs(parameters["gpt3-175b-2048-b16"] - 174_600e6) < 100e6  # Brown et al., Table D.1: 174,600 M
    # Dehghani et al., Table 1, print 21,743 M, those of the products of all layers; embedding, biases, norms and head come on top.
    products = 48 * (4 * 6144**2 + 2 * 6144 * 24576)
    assert round(products / 1e6) == 21_743 and 0 < parameters["vit-22b-224-b256"] - products < 500e6


def test_auxiliary_losses_are_weighted_and_added():
    class Two(torch.nn.Module):
        loss_weights = (1.0, 0.5)

        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)

        def forward(self, x):
            return self.first(x), self.second(x)

    found = capture(Request(Two, 2, (4,)), "cpu")
    losses = [node for node in found.graph_module.graph.nodes if "nll_loss_forward" in str(node.target)]
    assert len(losses) == 2 and len(found.gradients) == 4
    scaled = [node for node in found.graph_module.graph.nodes if "mul" in str(node.target) and 0.5 in node.args]
    assert scaled and found.loss.target is torch.ops.aten.add.Tensor


def test_upsampling_stays_one_operator_and_torch_is_left_as_it_was():
    class Upsampled(torch.nn.Module):
        def __init__(self, mode):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 1), torch.nn.Upsample(scale_factor=2, mode=mode))

        def forward(self, x):
            return self.layers(x)

    before = dict(torch.ops.aten.upsample_bilinear2d.vec.py_kernels)
    for mode in ("nearest", "bilinear"):
        nodes = capture(Request(lambda mode=mode: Upsampled(mode), 2, (3, 8, 8)), "cpu").graph_module.graph.nodes
        names = [str(node.target) for node in nodes if "upsample" in str(node.target)]
        assert len(names) == 2 and "backward" in names[1] and not any("index" in str(node.target) for node in nodes)
    assert torch.ops.aten.upsample_bilinear2d.vec.py_kernels == before and before


def test_construction_may_compute_with_real_numbers():
    # regnet and stochastic depth look at tensors that they have made; on fake ones that is an error.
    for model in ("torchvision:regnet_y_400mf", "torchvision:swin_t", "torchvision:convnext_tiny", "timm:vit_small_patch16_224"):
        trace = traced(Job(model, 2, (3, 224, 224), "unit", "cpu"))
        assert len(trace.operators) > 300 and trace.parameter_bytes > 4e6


def test_a_network_larger_than_memory_is_built_without_memory():
    trace = traced(Job("transformers:opt-6.7b", 1, (8,), "unit", "cpu"))
    assert trace.parameter_bytes > 26e9


def test_what_is_the_same_in_every_iteration_counts_as_buffers():
    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(64, 64)
            self.register_buffer("scale", torch.ones(64))

        def forward(self, x):
            mask = torch.arange(64, device=x.device).unsqueeze(0) < torch.arange(64, device=x.device).unsqueeze(1)
            return self.layer(x) @ torch.where(mask, self.scale, 0.0).T + torch.rand(64, device=x.device)

    class Made:
        names = staticmethod(lambda: ["masked"])
        build = staticmethod(lambda _name: Masked())
        about = ""

    FAMILIES["made"] = Made
    try:
        trace = traced(Job("made:masked", 2, (64,), "unit", "cpu"))
    finally:
        del FAMILIES["made"]
    kinds = [str(operator.node.target) for operator in trace.operators if operator.phase == "forward"]
    assert not any(word in kind for kind in kinds for word in ("arange", "where", "aten.lt"))
    # The buffer, and the masked matrix that the product and its backward read; random numbers are drawn anew.
    assert trace.buffer_bytes == 64 * 4 + 64 * 64 * 4 and any("rand" in kind for kind in kinds)
    assert any("depend on no input" in note for note in trace.notes)


@needs_files
@pytest.mark.parametrize("name", ["gpt2-1024-b8-unit", "llama-7b-2048-b8-unit", "opt-350m-2048-b8-unit"])
def test_nothing_but_the_loss_reads_the_inputs_of_a_language_model_a_second_time(name):
    made = instance.read(ROOT / "fastsa" / f"{name}.json.zst")
    inputs = {tensor["id"] for tensor in made["tensors"] if tensor["kind"] == "input"}
    readers = [operator for operator in made["operators"]
               if inputs & set(operator["inputs"]) and operator["phase"] == "forward"]
    assert [operator["op_type"] for operator in readers] == ["aten.embedding"]
    sources = [operator for operator in made["operators"] if not operator["inputs"] and operator["phase"] == "forward"]
    assert all(operator["op_type"] == "aten.embedding" for operator in sources)  # of positions


def test_graph_sizes_are_those_of_fastsas_table_where_nothing_changed_since():
    for model, expected in (("timm:vgg11", (69, 119)), ("timm:resnet18", (171, 437 + 20))):  # one more per batch norm
        assert graph_size(capture(Request(builder(model), 2, (3, 224, 224)), "cpu")) == expected


def test_counted_costs_are_abstract_and_say_so(tmp_path):
    for device in ("flops", "unit"):
        run(Job("toy:conv-bn-relu", 4, (3, 8, 8), device, "cpu"), tmp_path / f"{device}.json")
        made = instance.read(tmp_path / f"{device}.json")
        assert made["units"] == {"time": "abstract"} and "device" not in made["provenance"]
        assert made["provenance"]["times"] == {"kind": "modelled", "model": device}
        times = {operator["name"]: operator["implementations"][0]["time"] for operator in made["operators"]}
        if device == "unit":
            assert set(times.values()) == {1}
        else:  # 4 images of 8x8, 8 channels out, 27 multiply-adds each; 2048 elements
            assert times["0"] == 2 * 4 * 64 * 8 * 27 and times["2"] == 4 * 8 * 64
        assert check.problems(made) == []
