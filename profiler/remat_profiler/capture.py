"""The joint graph (forward, loss, backward) of a network at ATen level, from AOTAutograd.

AOTAutograd hands the joint graph to its partition function; ours takes it and stops there. (The
export functions of AOTAutograd trace the graph a second time and lose every mark on the way.)
Runs under `FakeTensorMode`: shapes and strides, no memory. Two marks are left on every node that a
later stage cannot recover reliably from the graph itself, through `torch.fx.traceback`:
`module`, the path of the module whose forward made it, and `grad_fn`, the sequence number of the
autograd function whose backward made it (the forward node carries the same number as `seq_nr`).
This file must not know of instances, storages or costs.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
import torch.fx.traceback as fx_traceback
from functorch.compile import aot_function
from torch import nn
from torch._C import DispatchKey
from torch._functorch._aot_autograd.functional_utils import has_data_mutation
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode

from .errors import ProfilerError

Marks = list[contextlib.AbstractContextManager[None]]
MARK = "remat_profiler"
MODEL = "model"


@dataclass
class Capture:
    """A joint graph, and what its inputs and outputs are."""

    graph_module: torch.fx.GraphModule
    parameters: dict[torch.fx.Node, str]
    buffers: dict[torch.fx.Node, str]
    inputs: dict[torch.fx.Node, str]
    tangents: list[torch.fx.Node]
    loss: torch.fx.Node
    # New values of buffers, each with the buffer.
    new_state: list[tuple[torch.fx.Node, torch.fx.Node]]
    # By the parameter's name: several parameters may have one gradient.
    gradients: dict[str, torch.fx.Node]
    leaf_modules: set[str]
    trace_device: str
    notes: list[str] = field(default_factory=list)


class _JointGraph(Exception):
    """Carries the joint graph out of AOTAutograd."""

    def __init__(self, graph_module: torch.fx.GraphModule, forward_outputs: int) -> None:
        super().__init__("joint graph")
        self.graph_module = graph_module
        self.forward_outputs = forward_outputs


@dataclass(frozen=True)
class Example:
    """An iteration of the user's: `loss(module, *inputs)` runs the module and gives a scalar; `inputs` are tensors."""

    loss: Callable[..., torch.Tensor]
    inputs: tuple[torch.Tensor, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.inputs, (tuple, list)) or not all(isinstance(value, torch.Tensor) for value in self.inputs):
            raise ProfilerError("the inputs of an Example are a tuple of tensors: Example(loss, (x,))")


@dataclass(frozen=True)
class Request:
    """What to trace (in float32); an `example` takes the place of random images, labels and cross-entropy."""

    build: Callable[[], nn.Module]
    batch: int
    shape: tuple[int, ...]
    example: Example | None = None


class TrainingStep(nn.Module):
    """The network and its loss; outputs are a tuple, as AOTAutograd wants them."""

    def __init__(self, model: nn.Module, loss: Callable[..., torch.Tensor] | None = None) -> None:
        super().__init__()
        self.model, self.loss = model, loss or training_loss
        # Buffers and other tensors that the latest forward pass wrote to, in the order of named parameters, named buffers, inputs.
        self.written: list[str] = []
        _mark_modules(model)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor]:
        """The loss, as a tuple."""
        there = self._tensors(inputs)
        with _marked(module=""):
            loss = self.loss(self.model, *inputs)
            if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
                raise ProfilerError("the loss must be a tensor of one element")
        replaced = [name for name, tensor in self._tensors(inputs).items() if tensor is not there.get(name)]
        if replaced:
            raise ProfilerError(f"buffer '{replaced[0]}' is replaced in forward: write to it instead, with copy_")
        self.written = [name for name, tensor in there.items() if has_data_mutation(tensor)]
        _mark_autograd(loss)
        return (loss,)

    def _tensors(self, inputs: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
        return {name.removeprefix(MODEL + "."): tensor for name, tensor in (*self.named_parameters(), *self.named_buffers())} | {
            f"input {index}": tensor for index, tensor in enumerate(inputs)}


def training_loss(model: nn.Module, images: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the network's logits, those of auxiliary classifiers weighted and added, or the mean squared
    difference where the network `regresses`; `more` are its further inputs, if any, and then the labels."""
    *inputs, labels = more
    first, *others = _logits_of(model(images, *inputs))
    if _regresses(model):
        return nn.functional.mse_loss(first, labels)
    loss = nn.functional.cross_entropy(first, labels)
    for logits, weight in zip(others, getattr(model, "loss_weights", (1.0,))[1:], strict=True):
        loss = loss + weight * nn.functional.cross_entropy(logits, labels)
    return loss


def _logits_of(outputs: object) -> tuple[torch.Tensor, ...]:
    """What a network returned, as a tuple of logits of one shape but for the classes."""
    logits = outputs if isinstance(outputs, tuple) else (outputs,)
    if not all(isinstance(item, torch.Tensor) and item.dim() >= 2 for item in logits):
        raise ProfilerError("the network must return logits (batch x classes ...) or a tuple of them")
    return logits


def capture(request: Request, device: str) -> Capture:
    """Traces the iteration with fake tensors on `device` (`cpu` or `cuda`)."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    model = _built(request.build, mode, device)
    _refuse_modules(model)
    with mode, _quiet(), _native_upsampling():
        example = request.example
        step = TrainingStep(model, None if example is None else example.loss)
        if example is None:
            images = torch.zeros(request.batch, *request.shape, dtype=_input_dtype(model), device=device)
            further = {name: torch.zeros(request.batch, *shape, dtype=dtype, device=device)
                       for name, (shape, dtype) in _more_inputs(model).items()}
            kind = torch.float32 if _regresses(model) else torch.int64
            labels = torch.zeros(_label_shape(step, images, *further.values()), dtype=kind, device=device)
            inputs: tuple[torch.Tensor, ...] = (images, *further.values(), labels)
            names = ["tokens" if _takes_tokens(model) else "images", *further, "labels"]
        else:
            if any(tensor.requires_grad for tensor in example.inputs):
                raise ProfilerError("an input of the Example requires a gradient, and only parameters get one: detach() it")
            inputs = tuple(mode.from_tensor(tensor.detach()).to(device) for tensor in example.inputs)
            names = [f"input{index}" for index in range(len(inputs))]
        with fx_traceback.preserve_node_meta():
            joint = _joint_graph(step, inputs)
    return _describe(joint, step, names, device)


def _joint_graph(step: TrainingStep, inputs: tuple[torch.Tensor, ...]) -> _JointGraph:
    def take(graph_module: torch.fx.GraphModule, _inputs: object, *, num_fwd_outputs: int, **_options: object) -> NoReturn:
        raise _JointGraph(graph_module, num_fwd_outputs)

    def never(_graph_module: object, _inputs: object) -> NoReturn:
        raise ProfilerError("there is no gradient: the loss depends on no parameter that requires one (all frozen, or detached?)")

    state = dict(step.named_parameters()) | dict(step.named_buffers())

    def functional(*arguments: torch.Tensor) -> object:
        replaced = dict(zip(state, arguments))
        return torch.func.functional_call(step, replaced, arguments[len(state) :])

    try:
        aot_function(
            functional, fw_compiler=never, bw_compiler=never, partition_fn=take,
            num_params_buffers=len(state),
        )(*state.values(), *inputs)
    except _JointGraph as joint:
        return joint
    raise ProfilerError("AOTAutograd made no joint graph: does the network have parameters?")


def _describe(joint: _JointGraph, step: TrainingStep, inputs: list[str], device: str) -> Capture:
    """Names inputs and outputs: parameters, buffers and inputs come in this order, then tangents;
    mutated buffers and the loss come out, then one gradient (or None) for each input."""
    graph = joint.graph_module.graph
    _refuse(joint.graph_module)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    parameters = [name.removeprefix(MODEL + ".") for name, _ in step.named_parameters()]
    buffers = [name.removeprefix(MODEL + ".") for name, _ in step.named_buffers()]
    names = parameters + buffers + inputs
    primals, tangents = placeholders[: len(names)], placeholders[len(names) :]
    by_name = list(zip(primals, names))
    first_input = len(parameters) + len(buffers)
    (outputs,) = next(node for node in graph.nodes if node.op == "output").args
    forward, gradients = outputs[: joint.forward_outputs], outputs[joint.forward_outputs :]
    unwritable = [name for name in step.written if name not in buffers]
    if unwritable:
        raise ProfilerError(f"forward writes to '{unwritable[0]}' in place, and may write to buffers only")
    if len(tangents) > 1 and step.written:
        raise ProfilerError(f"forward writes what carries a gradient into the buffer '{step.written[0]}': detach() it")
    if len(gradients) != len(names) or len(tangents) != 1 or len(forward) != len(step.written) + 1:
        raise ProfilerError("this torch build orders the joint graph in a way that is not known here")
    return Capture(
        graph_module=joint.graph_module,
        parameters=dict(by_name[: len(parameters)]),
        buffers=dict(by_name[len(parameters) : first_input]),
        inputs=dict(by_name[first_input:]),
        tangents=tangents,
        loss=forward[-1],
        new_state=[(node, primals[names.index(name)]) for node, name in zip(forward, step.written)],
        gradients={name: node for node, name in zip(gradients, names) if node is not None},
        leaf_modules={n for n, module in step.model.named_modules() if not list(module.children())},
        trace_device=device,
    )


def _refuse_modules(model: nn.Module) -> None:
    """Raises for what is traced without a part of it: the joint graph has no dropout between the layers of a recurrent module."""
    for path, module in model.named_modules():
        if isinstance(module, nn.RNNBase) and module.training and module.dropout and module.num_layers > 1:
            kind = f"nn.{module.mode.partition('_')[0]}"
            raise ProfilerError(f"'{path or kind}' has dropout between its {module.num_layers} layers, and a trace has none of it: "
                                f"take one {kind} a layer with nn.Dropout between them, or dropout=0")


def _refuse(module: torch.fx.GraphModule) -> None:
    """Raises for what would be run or differentiated wrongly."""
    for node in module.graph.nodes:
        constant = getattr(module, node.target) if node.op == "get_attr" else None
        if isinstance(constant, torch.Tensor) and constant.requires_grad:
            raise ProfilerError(f"the iteration reads a tensor of shape {list(constant.shape)} that requires a gradient and is no "
                                "parameter of the module (of the loss?): make it one, or detach() it")
        made = node.meta.get("val")
        if isinstance(made, torch.Tensor) and made.layout != torch.strided:
            raise ProfilerError(f"'{node.name}' is sparse, and instances are of dense tensors: give nn.Embedding sparse=False")
        if str(node.target) == "with_effects":
            raise ProfilerError(f"forward runs {node.args[1]}, which has an effect besides its result: leave it out "
                                "(linalg.cholesky_ex in place of cholesky, say)")
        if "mkldnn_rnn_layer" in str(node.target):
            raise ProfilerError("an nn.LSTM runs as one operator of oneDNN, which does not run on its own: trace inside of "
                                "torch.backends.mkldnn.flags(enabled=False)")


def capture_for(request: Request, devices: list[str]) -> Capture:
    """Traces on the first of `devices` that the torch build allows; falling back is noted."""
    device = next((device for device in devices if _can_trace_on(device)), devices[-1])
    try:
        result = capture(request, device)
    except ProfilerError:
        raise
    except Exception as error:  # the tracer and the network raise anything; users get one line
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException)):
            first_line += " depends on values of its operands, of which a trace knows shapes alone"
        if "entirely functional graph" in first_line:
            first_line = "forward writes to a tensor that is no buffer: register it as one"
        raise ProfilerError(
            f"cannot trace the network with input {'x'.join(map(str, (request.batch, *request.shape)))} "
            f"on fake {device} tensors: {first_line}"
        ) from error
    result.notes += [_fallback_note(tried, device) for tried in devices[: devices.index(device)]]
    return result


def _can_trace_on(device: str) -> bool:
    """Whether a backward pass on fake tensors of that device runs: a tiny network tells."""
    if device == "cpu":
        return True
    try:
        capture(Request(lambda: nn.Linear(1, 2), 1, (1,)), device)
    except Exception:  # without a GPU, autograd fails in ways that differ between versions
        return False
    return True


def _fallback_note(tried: str, used: str) -> str:
    return f"this torch build cannot run a backward pass on fake {tried} tensors here: fake {used} tensors instead"


def _label_shape(step: TrainingStep, *inputs: torch.Tensor) -> tuple[int, ...]:
    """Labels have the shape of the logits without the class dimension, or of the whole output."""
    with torch.no_grad():
        logits = _logits_of(step.model(*inputs))[0]
    return tuple(logits.shape) if _regresses(step.model) else (logits.shape[0], *logits.shape[2:])


def _more_inputs(model: nn.Module) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    return dict(getattr(model, "more_inputs", {}))


def _regresses(model: nn.Module) -> bool:
    return bool(getattr(model, "regresses", False))


def _takes_tokens(model: nn.Module) -> bool:
    return bool(getattr(model, "takes_tokens", False))


def _input_dtype(model: nn.Module) -> torch.dtype:
    return torch.int64 if _takes_tokens(model) else torch.float32


def _mark_modules(model: nn.Module) -> None:
    """Keeps the path of the innermost running module in the marks of new nodes."""
    for path, module in model.named_modules():
        stack: Marks = []

        def enter(_module: object, _inputs: object, path: str = path, stack: Marks = stack) -> None:
            stack.append(_marked(module=f"{MODEL}.{path}" if path else MODEL))
            stack[-1].__enter__()

        def leave(_module: object, _inputs: object, _output: object, stack: Marks = stack) -> None:
            stack.pop().__exit__(None, None, None)

        module.register_forward_pre_hook(enter)
        module.register_forward_hook(leave, always_call=True)


def _mark_autograd(loss: torch.Tensor) -> None:
    """Makes every autograd function leave its sequence number on the nodes that it makes."""
    if loss.grad_fn is None:
        return
    seen, todo = {loss.grad_fn}, [loss.grad_fn]
    while todo:
        function = todo.pop()
        sequence = function._sequence_nr()

        def before(_gradients: object, sequence: int = sequence) -> None:
            _set_mark({"grad_fn": sequence})

        def after(_inputs: object, _outputs: object) -> None:
            _set_mark({})

        function.register_prehook(before)
        function.register_hook(after)
        for following, _ in function.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                todo.append(following)


def _set_mark(mark: dict[str, object]) -> None:
    if fx_traceback.has_preserved_node_meta():
        fx_traceback.current_meta["custom"] = {MARK: mark}


@contextlib.contextmanager
def _marked(**mark: object) -> Iterator[None]:
    before = fx_traceback.current_meta.get("custom")
    _set_mark(mark)
    try:
        yield
    finally:
        if before is None:
            fx_traceback.current_meta.pop("custom", None)
        else:
            fx_traceback.current_meta["custom"] = before


def mark_of(node: torch.fx.Node) -> dict[str, object]:
    """The marks that `capture` left on a node."""
    return (node.meta.get("custom") or {}).get(MARK, {})


def _built(build: Callable[[], nn.Module], mode: FakeTensorMode, device: str) -> nn.Module:
    """Builds a network whose parameters and buffers are fake.

    Constructors run outside of the mode, because some compute with small tensors (drop rates, say) what
    they then need as numbers. Parameters become fake one by one as they are registered, so no more than one
    is ever allocated, and nothing is written to it."""
    register = nn.Module.register_parameter

    def faked(self: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(self, name, parameter)
        if parameter is not None and not isinstance(parameter, FakeTensor):
            with mode:
                like = torch.empty_strided(parameter.shape, parameter.stride(), dtype=parameter.dtype, device=device)
                self._parameters[name] = nn.Parameter(like, requires_grad=parameter.requires_grad)

    nn.Module.register_parameter = faked
    try:
        with _without_initialisation():
            model = build()
    finally:
        nn.Module.register_parameter = register
    if not isinstance(model, nn.Module):
        raise ProfilerError(f"the function that builds the network returns {model!r:.80}, which is no torch.nn.Module")
    fakes: dict[int, torch.Tensor] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():  # of a copy, which registers none
            if parameter is not None and not isinstance(parameter, FakeTensor):
                if id(parameter) not in fakes:
                    like = mode.from_tensor(parameter.detach()).to(device)
                    fakes[id(parameter)] = nn.Parameter(like, requires_grad=parameter.requires_grad)
                module._parameters[name] = fakes[id(parameter)]
        for name, buffer in module._buffers.items():
            if buffer is not None and not isinstance(buffer, FakeTensor):
                module._buffers[name] = mode.from_tensor(buffer).to(device)
    return model


@contextlib.contextmanager
def _without_initialisation() -> Iterator[None]:
    """Leaves parameters as they are allocated: values do not matter, and some initialisers look at
    what they drew, which a fake tensor cannot show."""
    names = [name for name in vars(nn.init) if name.endswith("_") and not name.startswith("_")]
    originals = {name: getattr(nn.init, name) for name in names}
    for name in names:
        setattr(nn.init, name, lambda tensor, *_arguments, **_options: tensor)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(nn.init, name, original)


_PYTHON_KERNELS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


@contextlib.contextmanager
def _native_upsampling() -> Iterator[None]:
    """Keeps upsampling one operator, as it is when a network runs.

    torch registers Python kernels that take it apart into index arithmetic while a graph is traced; what
    they leave behind for the backward pass no framework would keep."""
    offered: list[tuple[Any, DispatchKey]] = []
    for name in dir(torch.ops.aten):
        if "upsample" in name:
            packet = getattr(torch.ops.aten, name)
            offered += [(getattr(packet, overload), key) for overload in packet.overloads() for key in _PYTHON_KERNELS]
    removed = [(operator, key, operator.py_kernels[key]) for operator, key in offered if key in operator.py_kernels]
    try:
        for operator, key, _ in removed:
            del operator.py_kernels[key]
            operator._dispatch_cache.clear()
        yield
    finally:
        for operator, key, kernel in removed:
            operator.py_kernels[key] = kernel
            operator._dispatch_cache.clear()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences AOTAutograd's chatter for the duration of an export."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
