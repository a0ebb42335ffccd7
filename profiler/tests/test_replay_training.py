"""Training with a schedule comes to what plain training comes to."""

import copy

import pytest
import torch
from torch import nn

from remat_profiler import Example, Scheduled, trace_module
from remat_profiler.capture import training_loss
from remat_profiler.errors import ProfilerError
from remat_profiler.replay import plan
from remat_profiler.replay.once import store_all

from .splitting import SEVERAL_VIEWS, Parts

STEPS = 20


def network():
    """Convolution, batch norm, dropout, and a module that runs in place: a bit of everything."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Dropout(0.2),
        nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )


def recomputing(instance):
    """Store-all, but everything that the forward pass made and the backward pass reads is dropped and made again."""
    forward = [op for op in instance["operators"] if op["phase"] != "backward"]
    backward = [op["id"] for op in instance["operators"] if op["phase"] == "backward"]
    steps = store_all(instance)["steps"]
    split = next(i for i, step in enumerate(steps) if step.get("compute") in backward)
    kept = {t["id"] for t in instance["tensors"] if t["kind"] in ("input", "output")}
    held = set(kept)
    for step in steps[:split]:
        if "compute" in step:
            held |= set(instance["operators"][step["compute"]]["outputs"])
        else:
            held.discard(step["free"])
    drops = [{"free": tensor} for tensor in sorted(held - kept)]
    again = []
    for op in forward:
        recompute = next((i["name"] for i in op["implementations"] if i.get("recompute")), None)
        again.append({"compute": op["id"]} | ({"implementation": recompute} if recompute else {}))
    read_later = {t for op in instance["operators"] if op["phase"] == "backward" for t in op["inputs"]}
    extra = {t for op in forward for t in op["outputs"]} - read_later - kept
    drops_again = [{"free": tensor} for tensor in sorted(extra)]
    return {"format": plan.FORMAT, "version": plan.VERSION, "instance": instance["name"],
            "steps": steps[:split] + drops + again + drops_again + steps[split:]}


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    torch.manual_seed(0)
    module = network()
    path = tmp_path_factory.mktemp("training") / "mine.json"
    summary = trace_module(module, 6, (3, 12, 12), path, device="model:v100", trace_device="cpu")
    assert "operators" in summary
    return module, plan.read_document(path, "instance")


def train(step, module, batches):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(5)
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        loss = step(images, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def batches():
    generator = torch.Generator().manual_seed(7)
    labels = [torch.randint(0, 5, (6,), generator=generator) for _ in range(STEPS)]
    return [(torch.randn(6, 3, 12, 12, generator=generator) + label.view(-1, 1, 1, 1), label) for label in labels]


@pytest.mark.parametrize("make", [store_all, recomputing])
def test_twenty_steps_with_a_schedule_reach_the_losses_of_plain_training(traced, make):
    torch.set_num_threads(1)
    original, instance = traced
    plain, scheduled = copy.deepcopy(original), copy.deepcopy(original)
    expected = train(lambda x, y: training_loss(plain.train(), x, y), plain, batches())
    found = train(Scheduled(scheduled, instance, make(instance)), scheduled, batches())
    assert found == pytest.approx(expected, rel=1e-4)
    assert expected[-1] < 0.8 * expected[0], "it learns"
    for (name, a), (_, b) in zip(plain.named_buffers(), scheduled.named_buffers()):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-5), name


def test_gradients_are_scaled_with_the_loss_and_handed_out_once(traced):
    module, instance = copy.deepcopy(traced[0]), traced[1]
    step = Scheduled(module, instance, store_all(instance))
    images, labels = batches()[0]
    found = []
    for scale in (1, 3):
        module.zero_grad()
        torch.manual_seed(1)
        (step(images, labels) * scale).backward()
        found.append(module[0].weight.grad.clone())
    assert torch.allclose(found[1], 3 * found[0], rtol=1e-4, atol=1e-7)
    loss = step(images, labels)
    loss.backward(retain_graph=True)
    with pytest.raises(ProfilerError, match="handed out already"):
        loss.backward()


def test_what_does_not_fit_the_schedule_is_refused(traced):
    module, instance = copy.deepcopy(traced[0]), traced[1]
    step = Scheduled(module, instance, store_all(instance))
    images, labels = batches()[0]
    with pytest.raises(ProfilerError, match=r"images: .*\[6, 3, 12, 12\], not .*\[5, 3, 12, 12\]"):
        step(images[:5], labels[:5])
    with pytest.raises(ProfilerError, match="training iterations only"):
        step.eval()(images, labels)
    module[0] = nn.Conv2d(3, 9, 3, padding=1)
    with pytest.raises(ProfilerError, match="is not what tracing|no '0.weight'|cannot trace"):
        Scheduled(module, instance, store_all(instance))


def test_a_state_that_is_loaded_later_is_used(traced):
    module, instance = copy.deepcopy(traced[0]), traced[1]
    step = Scheduled(module, instance, store_all(instance))
    images, labels = batches()[0]
    step(images, labels)
    with torch.no_grad():
        module[9].weight = nn.Parameter(torch.zeros_like(module[9].weight))
        module[9].bias.zero_()
    assert step(images, labels).item() == pytest.approx(torch.log(torch.tensor(5.0)).item(), rel=1e-5)


class Pair(nn.Module):
    """Two inputs, and no logits."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.out = nn.Linear(6, 8), nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x, y):
        return self.out(torch.tanh(self.left(x)) * torch.tanh(self.right(y)))


@pytest.mark.parametrize("make", [store_all, recomputing])
def test_a_loss_and_inputs_of_the_user_are_scheduled_to_the_bit(make, tmp_path):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    module, inputs = Pair().train(), (torch.randn(5, 6), torch.randn(5, 4), torch.randn(5, 3))
    example = Example(lambda net, x, y, wanted: nn.functional.mse_loss(net(x, y), wanted), inputs)
    path = tmp_path / "pair.json"
    trace_module(module, 5, (6,), path, device="model:v100", trace_device="cpu", example=example)
    instance = plan.read_document(path, "instance")
    step = Scheduled(module, instance, make(instance), example=example)
    found = []
    for run in (lambda: example.loss(module, *inputs), lambda: step(*inputs)):
        module.zero_grad()
        loss = run()
        loss.backward()
        found.append([loss.detach(), *(p.grad.clone() for p in module.parameters())])
    assert all(map(torch.equal, *found))
    with pytest.raises(ProfilerError, match="for 3 inputs, not 2"):
        step(*inputs[:2])


@pytest.mark.parametrize("name", SEVERAL_VIEWS)
def test_views_of_a_tensor_that_was_split_are_taken_anew_by_every_reader(name, tmp_path):
    torch.manual_seed(3)
    module, example = Parts(SEVERAL_VIEWS[name]), (torch.randn(2, 5), torch.tensor([0, 2]))
    path = tmp_path / "parts.json"
    trace_module(module, 2, (5,), path, device="model:v100", trace_device="cpu")
    instance = plan.read_document(path, "instance")
    training_loss(module, *example).backward()
    expected = [parameter.grad.clone() for parameter in module.parameters()]
    module.zero_grad()
    Scheduled(module, instance, recomputing(instance))(*example).backward()
    assert all(torch.equal(parameter.grad, gradient) for parameter, gradient in zip(module.parameters(), expected))


def test_an_instance_from_when_views_were_copies_is_refused_with_the_reason(tmp_path):
    path = tmp_path / "parts.json"
    module = Parts(SEVERAL_VIEWS["split"])
    trace_module(module, 2, (5,), path, device="model:v100", trace_device="cpu")
    instance = plan.read_document(path, "instance")
    instance["operators"][0]["op_type"] = "aten.split.Tensor"
    with pytest.raises(ProfilerError, match="when the outputs of split and unbind counted as copies: trace it again"):
        Scheduled(module, instance, store_all(instance))
    instance["operators"][0]["op_type"] = "aten.relu"
    with pytest.raises(ProfilerError, match="trace it again with this version of torch"):
        Scheduled(module, instance, store_all(instance))
