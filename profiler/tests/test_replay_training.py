"""Training with a schedule comes to what plain training comes to."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from remat_profiler import Example, Scheduled, models, trace_module
from remat_profiler.capture import training_loss
from remat_profiler.errors import ProfilerError
from remat_profiler.job import Job, traced_with
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


@pytest.mark.parametrize("name", ["my net", "a; b", "its 'name'"])
def test_an_instance_may_have_any_name(name, tmp_path):
    torch.manual_seed(0)
    module, path = nn.Linear(6, 3), tmp_path / "named.json"
    trace_module(module, 5, (6,), path, device="model:v100", trace_device="cpu", name=name)
    instance = plan.read_document(path, "instance")
    assert Scheduled(module, instance, store_all(instance))(torch.randn(5, 6), torch.zeros(5, dtype=torch.int64)).item() > 0
    with pytest.raises(ProfilerError, match="python:MODULE:FUNCTION"):
        models.builder("python:Linear")


@pytest.mark.parametrize("make", [store_all, recomputing])
@pytest.mark.parametrize("rows,copies", [(1, 1), (5, 0)])
def test_a_copy_of_some_rows_is_a_tensor_of_its_own_and_one_of_all_is_not(rows, copies, make, tmp_path):
    torch.manual_seed(0)
    module = Bare(lambda self, h: torch.sin(h)[:rows].clone())
    step, x = scheduled(module, tmp_path, make=make)
    operators = plan.read_document(tmp_path / "bare.json", "instance")["operators"]
    assert [op["op_type"] for op in operators].count("aten.clone") == copies
    expected, found = outcome(module, lambda: squares(module, x)), outcome(module, lambda: step(x))
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in zip(expected, found, strict=True))


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


class Bare(nn.Module):
    """Two layers, and between them what a test asks for."""

    def __init__(self, between=lambda self, h: h, **more):
        super().__init__()
        self.first, self.last, self.between = nn.Linear(6, 6), nn.Linear(6, 3), between
        for name, value in more.items():
            setattr(self, name, value) if isinstance(value, (nn.Module, nn.Parameter)) else self.register_buffer(name, value)

    def forward(self, x):
        return self.last(torch.tanh(self.between(self, self.first(x))))


def squares(net, x):
    return net(x).square().mean()


def scheduled(module, path, loss=squares, make=store_all, x=None):
    """The module with a schedule, and its inputs."""
    torch.set_num_threads(1)
    example = Example(loss, (torch.randn(5, 6) if x is None else x,))
    trace_module(module, 5, (6,), path / "bare.json", device="model:v100", trace_device="cpu", example=example)
    instance = plan.read_document(path / "bare.json", "instance")
    return Scheduled(module, instance, make(instance), example=example), *example.inputs


def outcome(module, run):
    """Loss, gradients and buffers of two iterations."""
    state, found = copy.deepcopy(module.state_dict()), []
    for _ in range(2):
        module.zero_grad()
        torch.manual_seed(3)
        loss = run()
        loss.backward()
        found += [loss.detach(), *(p.grad for p in module.parameters()), *(b.clone() for b in module.buffers())]
    module.load_state_dict(state)
    return found


def frozen_norm():
    norm = nn.BatchNorm1d(6).eval()
    norm.running_mean.fill_(0.5)
    return Bare(lambda self, h: self.norm(h), norm=norm)


def remembering(self, h):
    with torch.no_grad():
        self.count += 1
        self.total += self.count
        self.earlier.copy_(self.norm.running_mean)
    return self.norm(h) * (self.total - self.count).cos()


BARE = {
    "parameters with one gradient": lambda: Bare(
        lambda self, h: h @ (self.a + self.b), a=nn.Parameter(torch.randn(6, 6)), b=nn.Parameter(torch.zeros(6, 6))),
    "a gradient that is one number": lambda: Bare(lambda self, h: h.mean() + self.a.sum() + h.new_zeros(6), a=nn.Parameter(torch.randn(6))),
    "a frozen batch norm": frozen_norm,
    "a weight with a norm that is kept": lambda: Bare(
        lambda self, h: self.more(h), more=nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6))),
    "buffers that read each other": lambda: Bare(
        remembering, norm=nn.BatchNorm1d(6), count=torch.zeros(()), total=torch.zeros(()), earlier=torch.ones(6)),
}


@pytest.mark.parametrize("make", [store_all, recomputing])
@pytest.mark.parametrize("name", BARE)
def test_gradients_and_buffers_of_a_schedule_are_those_of_plain_training(name, make, tmp_path):
    torch.manual_seed(0)
    module = BARE[name]()
    step, x = scheduled(module, tmp_path, make=make)
    expected, found = outcome(module, lambda: squares(module, x)), outcome(module, lambda: step(x))
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in zip(expected, found, strict=True))


def test_a_module_that_is_not_as_it_was_traced_is_refused(tmp_path):
    module = Bare(lambda self, h: self.drop(self.norm(h)), drop=nn.Dropout(0.5), norm=nn.BatchNorm1d(6))
    module.first.requires_grad_(False)
    step, x = scheduled(module, tmp_path)
    for change, back, words in (
            (lambda: module.norm.eval(), lambda: module.norm.train(), "'norm.training' of the module is False, and was True"),
            (lambda: setattr(module.drop, "p", 0.0), lambda: setattr(module.drop, "p", 0.5), "'drop.p' of the module is 0.0, and was 0.5"),
            (lambda: module.first.requires_grad_(True), lambda: module.first.requires_grad_(False), "'first.weight' was frozen")):
        change()
        with pytest.raises(ProfilerError, match=words):
            step(x)
        back()
    with pytest.raises(ProfilerError, match="input0 requires a gradient"):
        step(x.clone().requires_grad_())
    with torch.no_grad(), pytest.raises(ProfilerError, match="they are off here"):
        step(x)
    step(x).backward()
    assert module.last.weight.grad is not None


class Counting(Bare):
    """A rate and a switch of the user's own, and numbers that forward itself changes."""

    def __init__(self):
        super().__init__()
        self.rate, self.cubic, self.missing, self.calls = 0.5, False, float("nan"), 0

    def forward(self, x):
        self.calls += 1
        self.rows = x.shape[0]
        return super().forward(x ** (3 if self.cubic else 1)) * self.rate


def test_a_rate_of_the_users_own_module_that_is_another_one_is_refused(tmp_path):
    module = Counting()
    step, x = scheduled(module, tmp_path)
    expected = squares(module, x).item()  # forward counts, and remembers how many rows there are
    module.seen = [1]
    assert step(x).item() == expected
    for name, value, words in (("rate", 0.25, "'rate' of the module is 0.25, and was 0.5"), ("cubic", True, "'cubic' .* is True, and was")):
        before = getattr(module, name)
        setattr(module, name, value)
        with pytest.raises(ProfilerError, match=words):
            step(x)
        setattr(module, name, before)
    module.register_full_backward_hook(lambda *_: None)
    assert step(x).item() == expected


class Tempered(Bare):
    """What a trace takes for constant, wherever it lies; `moved` forward itself changes."""

    def __init__(self):
        super().__init__()
        self.config, self.scale, self.moved = {"rate": [0.5]}, torch.ones(()), torch.zeros(())

    def forward(self, x):
        h = super().forward(x) * self.scale * self.config["rate"][0]
        self.moved = h.detach()
        return h


def test_constants_in_tables_tensors_and_hooks_that_change_are_refused(tmp_path):
    module = Tempered()
    for change, words in (
            (lambda: module.config["rate"].__setitem__(0, 0.25), "'config' of the module is .*0.25"),
            (lambda: module.scale.mul_(2), "'scale' of the module is a tensor .*written to 1 times"),
            (lambda: setattr(module, "scale", torch.ones(())), "'scale' of the module"),
            (lambda: module.first.register_forward_hook(lambda *_: None), "'first._forward_hooks'")):
        step, x = scheduled(module, tmp_path)
        assert step(x).item() == pytest.approx(squares(module, x).item())
        change()
        with pytest.raises(ProfilerError, match=words):
            step(x)


def test_a_number_that_forward_changes_and_computes_with_is_refused(tmp_path):
    class Warming(Counting):
        def forward(self, x):
            return super().forward(x) * self.calls

    with pytest.raises(ProfilerError, match="forward changes 'calls' of the module and computes with it"):
        scheduled(Warming(), tmp_path)


def test_autocast_around_a_schedule_is_refused_and_within_the_module_is_traced(tmp_path):
    torch.manual_seed(0)
    module = Bare()
    step, x = scheduled(module, tmp_path)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ProfilerError, match="autocast would change them: call it outside"):
        step(x)
    assert step(x).item() == squares(module, x).item()

    def within(net, x):
        with torch.autocast("cpu", torch.bfloat16):
            return net(x).float().square().mean()

    step, x = scheduled(module, tmp_path, within)
    assert step(x).item() == within(module, x).item()


def test_an_input_that_is_laid_out_otherwise_than_the_traced_one_is_refused(tmp_path):
    step, x = scheduled(Bare(), tmp_path)
    with pytest.raises(ProfilerError, match=r"input0: the schedule is for strides \[6, 1\], not \[1, 5\]: call contiguous"):
        step(x.t().contiguous().t())
    step(x).backward()
    step, x = scheduled(Bare(), tmp_path, x=torch.randn(1, 6))
    step(x.clone().as_strided((1, 6), (99, 1))).backward()  # of a single row the stride means nothing


def test_a_buffer_that_is_written_between_iterations_is_read_anew(tmp_path):
    module = Bare(lambda self, h: h * self.scale.exp(), scale=torch.ones(6))
    step, x = scheduled(module, tmp_path)
    for value in (1.0, 0.5):
        module.scale.fill_(value)
        assert step(x).item() == pytest.approx(squares(module, x).item())


def replacing(self, h):
    self.seen = 0.9 * self.seen + h.detach().mean(0)
    return h - self.seen


def writing(name, value):
    def between(self, h):
        with torch.no_grad():
            getattr(self, name).copy_(value(h))
        return h
    return between


CRITERION, CALLS = nn.Linear(3, 1), torch.zeros(())
UNTRACEABLE = {
    "buffer 'seen' is replaced in forward": (lambda: Bare(replacing, seen=torch.zeros(6)), squares),
    "updates the buffer 'seen' from activations": (lambda: Bare(writing("seen", lambda h: h.mean(0)), seen=torch.zeros(6)), squares),
    "writes to 'scale' in place": (lambda: Bare(writing("scale", lambda h: h.mean(0)), scale=nn.Parameter(torch.ones(6))), squares),
    "carries a gradient into the buffer 'seen'": (
        lambda: Bare(lambda self, h: self.seen.add_(h.mean(0)) + h, seen=torch.zeros(6)), squares),
    "reads the buffer 'norm.running_mean'": (
        lambda: Bare(lambda self, h: self.norm.running_mean.clone() * self.norm(h), norm=nn.BatchNorm1d(6)), squares),
    "reads the buffer 'norm.running_mean', which batch norm updates": (
        lambda: Bare(lambda self, h: self.norm(h) * self.norm.running_mean.clone(), norm=nn.BatchNorm1d(6)), squares),
    "reads the buffer 'norm.running_mean', which batch norm updates when": (
        lambda: Bare(lambda self, h: F.batch_norm(h, self.norm.running_mean.clone(), self.norm.running_var.clone()) + self.norm(h),
                     norm=nn.BatchNorm1d(6)), squares),
    "_linalg_check_errors.*has an effect": (lambda: Bare(lambda self, h: torch.linalg.cholesky(h.T @ h + torch.eye(6))[:5] * h), squares),
    "writes to a tensor that is no buffer": (lambda: Bare(lambda self, h: h * CALLS.add_(1)), squares),
    "is sparse, and instances are of dense tensors": (
        lambda: Bare(lambda self, h: h + self.words(h.argmax(1)), words=nn.Embedding(6, 6, sparse=True)), squares),
    "requires a gradient and is no parameter": (Bare, lambda net, x: CRITERION(net(x)).square().mean()),
    "depends on no parameter": (Bare, lambda net, x: net(x).detach().sum()),
    "depends on no parameter that": (lambda: Bare().requires_grad_(False), squares),
}


@pytest.mark.parametrize("words", UNTRACEABLE)
def test_what_a_schedule_would_not_train_is_refused_when_it_is_traced(words, tmp_path):
    make, loss = UNTRACEABLE[words]
    with pytest.raises(ProfilerError, match=words):
        scheduled(make(), tmp_path, loss)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_dropout_between_the_layers_of_a_recurrent_module_is_refused_where_it_draws(kind, tmp_path):
    """The joint graph is without it, so that a schedule would train without a word of it."""
    torch.manual_seed(0)
    module = Bare(lambda self, h: self.more(h)[0], more=kind(6, 6, 2, dropout=0.5))
    with torch.backends.mkldnn.flags(enabled=False):
        with pytest.raises(ProfilerError, match=f"'more' has dropout between its 2 layers.*one nn.{kind.__name__} a layer with nn.Dropout"):
            scheduled(module, tmp_path)
        module.more.dropout = 0.0
        step, x = scheduled(module, tmp_path)
        assert step(x).item() == pytest.approx(squares(module, x).item())


def test_an_example_has_a_tuple_of_tensors_without_gradients(tmp_path):
    with pytest.raises(ProfilerError, match="a tuple of tensors"):
        Example(squares, torch.randn(5, 6))
    example = Example(squares, (torch.randn(5, 6, requires_grad=True),))
    with pytest.raises(ProfilerError, match="input of the Example requires a gradient"):
        trace_module(Bare(), 5, (6,), tmp_path / "bare.json", device="model:v100", example=example)


def random_first(instance):
    """Store-all, but what draws without reading anything comes first."""
    (early,) = [op["id"] for op in instance["operators"] if op.get("random") and not op["inputs"]]
    schedule = store_all(instance)
    (step,) = [step for step in schedule["steps"] if step.get("compute") == early]
    return schedule | {"steps": [step, *(other for other in schedule["steps"] if other is not step)]}


@pytest.mark.parametrize("draw", [nn.functional.dropout, nn.functional.rrelu])
def test_random_numbers_in_another_order_are_those_of_plain_training_or_refused(draw, tmp_path):
    torch.manual_seed(0)
    module = Bare(lambda self, h: draw(h, training=True) * torch.rand(h.shape))
    step, x = scheduled(module, tmp_path, make=random_first)
    torch.manual_seed(3)
    expected = squares(module, x).item()
    torch.manual_seed(3)
    if draw is nn.functional.dropout:
        assert step(x).item() == pytest.approx(expected)
    else:
        with pytest.raises(ProfilerError, match="draws as many random numbers as its operands say"):
            step(x)


@pytest.mark.parametrize("make", [store_all, recomputing])
def test_dropout_in_place_draws_in_the_order_of_memory(make, tmp_path):
    torch.manual_seed(0)
    module = Bare(lambda self, h: nn.functional.dropout(h.t() * 1, 0.5, inplace=True).t())
    step, x = scheduled(module, tmp_path, make=make)
    expected, found = outcome(module, lambda: squares(module, x)), outcome(module, lambda: step(x))
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in zip(expected, found, strict=True))


def keeping(self, h):
    self.latest = [h]
    return h


def normed():
    module = Bare()
    with warnings.catch_warnings():  # there is a newer one
        warnings.simplefilter("ignore", FutureWarning)
        module.first = nn.utils.weight_norm(module.first)
    return module


@pytest.mark.parametrize("make", [lambda: Bare(keeping), normed])
def test_what_an_earlier_forward_pass_has_left_in_the_module_is_no_obstacle(make, tmp_path):
    torch.manual_seed(0)
    module = make()
    module(torch.randn(5, 6))
    step, x = scheduled(module, tmp_path)
    expected, found = outcome(module, lambda: squares(module, x)), outcome(module, lambda: step(x))
    assert all(torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"batch": "8"}, {"batch": True}, {"shape": 16}, {"shape": (6, 0)}])
def test_sizes_that_are_none_are_refused_in_words_of_python(wrong, tmp_path):
    with pytest.raises(ProfilerError, match="^batch=.*, shape=.*: expected an integer"):
        trace_module(nn.Linear(6, 3), **{"batch": 5, "shape": (6,), "output": tmp_path / "none.json"} | wrong)


def test_what_a_trace_cannot_know_and_a_function_that_builds_nothing_are_said(tmp_path):
    lengths = torch.full((2,), 6), torch.full((2,), 3)
    example = Example(lambda net, x: nn.functional.ctc_loss(net(x).log_softmax(-1), torch.ones(2, 3, dtype=torch.int64), *lengths),
                      (torch.randn(6, 2, 6),))
    with pytest.raises(ProfilerError, match="_ctc_loss.* depends on values of its operands"):
        trace_module(nn.Linear(6, 7), 6, (2, 6), tmp_path / "none.json", device="flops", example=example)
    with pytest.raises(ProfilerError, match="the function that builds the network returns None"):
        traced_with(Job("python:nothing", 2, (3,), "flops"), lambda: None)
