"""Compiled training in an arena computes to the bit what it computes without one, and notices what was not planned."""

import ctypes
import gc
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rematplan
from remat_profiler import allocator
from remat_profiler.allocator import ALIVE, ELSEWHERE, Session, library
from remat_profiler.errors import ProfilerError
from rematplan import PlanWarning
from rematplan.compiling import _in_arena

from .planning import bit_equal, iteration, mlp, residual, transformer

SECONDS = 2
pytestmark = pytest.mark.usefixtures("planner")


def in_arena(target, **options):
    step = rematplan.compile(target, arena=True, **{"budget": "80%", "backend": "eager", "cost": "flops", "seconds": SECONDS} | options)
    return step, step._rematplan.arena


def losses(net, loss):
    """The loss with the module, so that the compiled graph holds all of the iteration."""
    return lambda *inputs: loss(net(*inputs))


def itself(value):
    return value


def settled(arena):
    """A plan is there, and the latest iteration that is over lay where it says and nowhere else."""
    assert arena.packing is not None, arena.given_up
    assert arena.latest.inside_bytes == arena.packing.bound, "what was alive at once is what the planner says it is"
    assert arena.latest.beside_bytes == arena.latest.occupied == 0
    return arena.packing


def outside_the_arena(net, run):
    """The allocator's peak during an iteration, by PyTorch's profiler, which does not see what lies in the arena."""
    return rematplan.executed(run, 1, lambda: net.zero_grad(set_to_none=True)).peak_bytes


@pytest.mark.parametrize("made", [mlp, residual, lambda: transformer(dropout=0.3), lambda: transformer(tied=True)])
def test_every_iteration_is_plain_training_to_the_bit_and_everything_lies_in_the_arena(made):
    net, inputs, loss = made()
    step, arena = in_arena(losses(net, loss))
    expected = iteration(net, inputs, loss)
    for _ in range(6):
        assert bit_equal(expected, iteration(net, inputs, itself, step)) == []
    packing = settled(arena)
    assert packing.bound <= packing.height < 1.1 * packing.bound
    assert arena.plans == 1 and arena.iterations == 5 and arena.followed >= 2, "the first iteration may allocate otherwise"

    def run():
        net.zero_grad(set_to_none=True)
        step(*inputs).backward()

    assert outside_the_arena(net, run) <= 64, "the gradient of the loss, which autograd makes itself"
    assert "went as planned" in rematplan.explain(step, run=run)


def test_inductors_graphs_compute_the_same_with_and_without_the_arena():
    net, inputs, loss = mlp(depth=4)
    plain = rematplan.compile(losses(net, loss), budget="80%", cost="flops", seconds=SECONDS)
    step, arena = in_arena(losses(net, loss), backend="inductor")
    expected = iteration(net, inputs, itself, plain)
    for _ in range(5):
        assert bit_equal(expected, iteration(net, inputs, itself, step)) == []
    settled(arena)
    assert step._rematplan.plans[0].runs_again


def test_training_with_an_optimizer_follows_plain_training():
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        net, inputs, loss = residual()
        step, arena = in_arena(losses(net, loss)) if compiled else (losses(net, loss), None)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        for _ in range(6):
            optimizer.zero_grad()
            value = step(*inputs)
            value.backward()
            optimizer.step()
            found.append(value.item())
    assert found[:6] == found[6:]
    settled(arena)
    assert arena.latest.outside_bytes > 0, "the loss of one iteration is there while the next begins"


def accumulate(net, step, inputs, times):
    net.zero_grad(set_to_none=True)
    for _ in range(times):
        step(*inputs).backward()
    return {name: p.grad.clone() for name, p in net.named_parameters()}


def test_accumulated_gradients_outlive_their_iteration_and_lie_outside():
    net, inputs, loss = mlp()
    step, arena = in_arena(losses(net, loss))
    expected = accumulate(net, losses(net, loss), inputs, 3)
    for _ in range(3):
        assert bit_equal(expected, accumulate(net, step, inputs, 3)) == []
    settled(arena)
    gradients = sum(p.nbytes for p in net.parameters())
    assert arena.latest.outside_bytes >= gradients and arena.plans == 1


def test_gradients_that_begin_to_be_accumulated_move_out_with_a_warning():
    net, inputs, loss = mlp()
    step, arena = in_arena(losses(net, loss))
    gradients = sum(p.nbytes for p in net.parameters())
    for _ in range(4):
        accumulate(net, step, inputs, 1)
    settled(arena)
    assert arena.latest.outside_bytes < gradients
    expected = accumulate(net, losses(net, loss), inputs, 3)
    with pytest.warns(PlanWarning, match="lived longer than planned.*planned anew"):
        for _ in range(2):
            assert bit_equal(expected, accumulate(net, step, inputs, 3)) == []
    assert bit_equal(expected, accumulate(net, step, inputs, 3)) == []
    settled(arena)
    assert arena.latest.outside_bytes >= gradients and arena.plans == 2


def test_another_batch_goes_on_beside_the_arena_with_a_warning_and_is_planned_when_it_comes_again():
    net, _, loss = mlp()
    step, arena = in_arena(losses(net, loss), dynamic=True)
    batches = {size: (torch.randn(size, 64),) for size in (256, 100)}
    expected = {size: iteration(net, x, loss) for size, x in batches.items()}

    def check(*sizes):
        for size in sizes:
            assert bit_equal(expected[size], iteration(net, batches[size], itself, step)) == []

    check(256, 256, 256, 256, 256)
    large = settled(arena).height
    with pytest.warns(PlanWarning, match="differs from the one that was planned: allocation .* is of another size"):
        check(100)
    check(256, 256)
    assert settled(arena).height == large and arena.plans == 1, "one iteration of another size changes nothing"
    with pytest.warns(PlanWarning, match="differs"):
        check(100, 100, 100, 100)
    assert settled(arena).height < large and arena.plans == 2
    with pytest.warns(PlanWarning, match="differs"):
        check(256, 256, 256, 256)
    assert settled(arena).height == large and arena.plans == 2, "the plan of the other batch is still known"


def test_a_second_forward_pass_before_the_backward_pass_of_the_first_is_noticed():
    net, inputs, loss = transformer()
    step, arena = in_arena(losses(net, loss))
    expected = iteration(net, inputs, loss)
    for _ in range(5):
        iteration(net, inputs, itself, step)
    settled(arena)

    def twice(target):
        net.zero_grad(set_to_none=True)
        first, second = target(*inputs), target(*inputs)
        first.backward()
        second.backward()
        return {name: p.grad.clone() for name, p in net.named_parameters()}

    doubled = twice(losses(net, loss))
    with pytest.warns(PlanWarning, match=r"compiled pass 1 \(forward\) came in the place of another"):
        assert bit_equal(doubled, twice(step)) == []
    for _ in range(2):
        assert bit_equal(expected, iteration(net, inputs, itself, step)) == []
    settled(arena)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlanWarning)
        for _ in range(4):
            assert bit_equal(doubled, twice(step)) == []
    assert len(settled(arena).of.windows) == 4, "done so always, it is what an iteration is"


def test_what_is_kept_of_an_iteration_keeps_its_contents():
    net, inputs, _ = mlp()
    step, arena = in_arena(net)
    kept, copies = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlanWarning)
        for number in range(8):
            net.zero_grad(set_to_none=True)
            made = step(inputs[0] + number)
            made.square().mean().backward()
            if number % 2:
                held = [made.detach(), *(p.grad for p in net.parameters())]
                kept += held
                copies += [tensor.clone() for tensor in held]
            del made
    assert all(torch.equal(a, b) for a, b in zip(kept, copies))


def test_a_forward_pass_without_a_backward_pass_is_an_iteration_of_its_own():
    net, inputs, loss = mlp()
    step, arena = in_arena(losses(net, loss))
    expected = iteration(net, inputs, loss)
    for _ in range(3):
        iteration(net, inputs, itself, step)
    step(*inputs)
    for _ in range(2):
        assert bit_equal(expected, iteration(net, inputs, itself, step)) == []
    settled(arena)


def test_an_error_in_a_pass_leaves_the_allocator_as_it_was():
    net, inputs, loss = mlp()
    step, arena = in_arena(losses(net, loss))
    for _ in range(3):
        iteration(net, inputs, itself, step)

    def broken(_arguments):
        torch.empty(1000)
        raise RuntimeError("broken")

    run = arena.within(broken, backward=False)
    with pytest.warns(PlanWarning, match="differs"), pytest.raises(RuntimeError, match="broken"):
        run([])
    before = arena.session.length()
    torch.empty(1000)
    assert arena.session.length() == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlanWarning)
        assert bit_equal(iteration(net, inputs, loss), iteration(net, inputs, itself, step)) == []


def test_all_graphs_of_a_broken_network_share_one_arena():
    net, inputs, loss = transformer(breaks=True, layers=4)
    step, arena = in_arena(net, budget="90%")
    expected = iteration(net, inputs, loss)
    for _ in range(5):
        assert bit_equal(expected, iteration(net, inputs, loss, step)) == []
    assert len(settled(arena).of.windows) == 4


def test_two_models_in_turn_have_an_arena_each():
    first, inputs, loss = mlp()
    second, tokens, cross_entropy = transformer()
    one, arena_one = in_arena(losses(first, loss))
    two, arena_two = in_arena(losses(second, cross_entropy))
    for _ in range(6):
        assert bit_equal(iteration(first, inputs, loss), iteration(first, inputs, itself, one)) == []
        assert bit_equal(iteration(second, tokens, cross_entropy), iteration(second, tokens, itself, two)) == []
    assert settled(arena_one).height != settled(arena_two).height
    assert arena_one.address != arena_two.address


def test_evaluation_between_iterations_changes_nothing():
    net, inputs, loss = residual()
    step, arena = in_arena(losses(net, loss))
    for _ in range(6):
        iteration(net, inputs, itself, step)
        with torch.no_grad():
            assert torch.equal(step(*inputs), loss(net(*inputs)))
    assert settled(arena) and arena.plans == 1


def test_without_the_planner_there_is_no_arena_and_a_warning_says_why(monkeypatch, tmp_path):
    net, inputs, loss = mlp()
    step, arena = in_arena(losses(net, loss))
    iteration(net, inputs, itself, step)
    monkeypatch.setenv("REMAT_BENCH", str(tmp_path / "nothing"))
    iteration(net, inputs, itself, step)
    with pytest.warns(PlanWarning, match="no arena any more: REMAT_BENCH names no program"):
        found = iteration(net, inputs, itself, step)
    assert bit_equal(iteration(net, inputs, loss), found) == []
    assert "REMAT_BENCH names no program" in rematplan.explain(step)


def test_ever_new_sizes_end_the_planning_with_a_warning():
    net, _, loss = mlp(depth=2)
    step, arena = in_arena(losses(net, loss), dynamic=True, budget="100%")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", PlanWarning)
        for size in range(20, 40):
            x = (torch.randn(size, 64),)
            for _ in range(3):
                assert bit_equal(iteration(net, x, loss), iteration(net, x, itself, step)) == []
    assert any("iterations allocate in ever new ways (16 plans" in str(warning.message) for warning in told)
    assert arena.packing is None


def test_a_loss_that_is_kept_with_its_graph_does_not_make_an_iteration_endless(monkeypatch):
    monkeypatch.setattr("rematplan.arena._LONGEST", 6)
    net, inputs, loss = mlp()
    step, arena = in_arena(losses(net, loss))
    expected = accumulate(net, losses(net, loss), inputs, 1)

    def check(times):
        for _ in range(times):
            assert bit_equal(expected, accumulate(net, step, inputs, 1)) == []

    check(5)
    settled(arena)
    kept = step(*inputs)
    with pytest.warns(PlanWarning, match="differs"):
        check(4)
    net.zero_grad(set_to_none=True)
    kept.backward()
    assert all(torch.equal(p.grad, expected[name]) for name, p in net.named_parameters())
    del kept
    check(6)
    settled(arena)


def test_a_graph_on_another_device_runs_without_the_arena_and_a_warning_says_so():
    step, arena = in_arena(nn.Linear(2, 2))

    def run(arguments):
        return arguments

    with pytest.warns(PlanWarning, match="the arena, which is for tensors on cpu alone"):
        assert _in_arena(step._rematplan, run, [torch.ones(1), torch.ones(1, device="meta")], False) is run
    assert _in_arena(step._rematplan, run, [torch.ones(1)], False) is not run


class NoParameter(nn.Module):
    def forward(self, x):
        return F.relu(x) + 1


def test_a_module_without_a_parameter_needs_no_arena():
    step, arena = in_arena(NoParameter())
    for _ in range(4):
        assert torch.equal(step(torch.ones(3)), torch.full((3,), 2.0))
    assert arena.packing is None and "arena: none, because" in rematplan.explain(step)


# The allocator.

def numbers(*values):
    return np.array(values, np.int64)


def window(session, part, *sizes):
    outer = session.begin_window(part)
    made = [torch.empty(size, dtype=torch.uint8) for size in sizes]
    return made, session.end_window(outer)


def test_allocations_of_a_window_lie_where_the_plan_says_and_the_log_has_their_lives():
    session = Session()
    address = session.plan(numbers(100, 200, 100), numbers(256, 0, ELSEWHERE), 384)
    session.begin_iteration()
    (a, b, c), stopped = window(session, (0, 3), 100, 200, 100)
    assert stopped == -1 and [a.data_ptr() - address, b.data_ptr() - address] == [256, 0]
    assert not address <= c.data_ptr() < address + 384
    assert [session.find(t) for t in (a, b, c, torch.empty(1))] == [0, 1, 2, -1]
    del a
    later, _ = window(session, None, 50)
    sizes, uppers = session.log()
    assert sizes.tolist() == [100, 200, 100, 50] and uppers.tolist() == [3, ALIVE, ALIVE, ALIVE]
    used = session.used()
    assert (used.blocks, used.inside_bytes, used.outside_bytes, used.beside_bytes, used.occupied) == (1, 384, 128, 64, 0)
    session.begin_iteration()
    assert session.used().beside_bytes == 0, "what a library keeps is not allocated anew"
    del later
    assert session.used().beside_bytes == 0


def test_a_place_that_is_taken_is_not_given_again_and_tensors_keep_their_memory():
    session = Session()
    session.plan(numbers(64, 128), numbers(64, 0), 128)
    session.begin_iteration()
    (first, second), stopped = window(session, (0, 2), 64, 128)
    assert stopped == -1 and session.used().occupied == 1
    first.fill_(1), second.fill_(2)
    assert first.sum() == 64 and second.sum() == 256
    kept = first.view(8, 8)
    del first, second, session
    gc.collect()
    assert kept.sum() == 64


@pytest.mark.parametrize("offset", [-64, 64, 1 << 40])
def test_a_place_outside_of_the_memory_is_never_given(offset):
    session = Session()
    address = session.plan(numbers(128), numbers(offset), 128)
    session.begin_iteration()
    (made,), _ = window(session, (0, 1), 128)
    assert session.used().occupied == 1 and not address <= made.data_ptr() < address + 128


@pytest.mark.parametrize(("sizes", "stopped"), [((64, 65), 1), ((64,), 1), ((63, 64), 0), ((64, 64, 1), -1)])
def test_a_window_that_goes_otherwise_than_planned_says_where(sizes, stopped):
    session = Session()
    session.plan(numbers(64, 64), numbers(0, 64), 128)
    session.begin_iteration()
    made, found = window(session, (0, 2), *sizes)
    assert found == (stopped if stopped >= 0 else 2)
    assert len({tensor.data_ptr() for tensor in made}) == len(sizes)


@pytest.fixture
def pretended_cuda(monkeypatch):
    """The allocator for tensors on a GPU, with the C library's malloc and free in the place of the device's; what they hold."""
    loaded, libc, held, errors = library("cuda"), ctypes.CDLL(None), {}, []
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t)
    def device_malloc(address, size):
        if size > 1 << 20:
            errors.append(2)  # out of memory
            return 2
        address[0] = libc.malloc(size)
        held[address[0]] = size
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    def device_free(address):
        del held[address]
        libc.free(address)
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int)
    def last_error():
        error = errors[-1] if errors else 0
        errors.clear()
        return error

    loaded.cuda_use(*(ctypes.cast(function, ctypes.c_void_p) for function in (device_malloc, device_free, last_error)))
    loaded.cuda_allocate.restype, loaded.cuda_allocate.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    loaded.cuda_release.restype = None
    loaded.cuda_release.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    monkeypatch.setattr(allocator, "_planned_cuda", True)
    yield types.SimpleNamespace(allocate=lambda size: loaded.cuda_allocate(size, 0, None), held=held, errors=errors,
                                release=lambda address, size: loaded.cuda_release(address, size, 0, None))


def test_on_a_gpu_a_window_follows_the_plan_and_ordinary_memory_of_one_size_is_used_again(pretended_cuda):
    session = Session("cuda")
    first = pretended_cuda.allocate(1000)
    assert allocator.cuda_level(again=True) == (1024, 1024)
    pretended_cuda.release(first, 1000)
    assert pretended_cuda.allocate(900) == first and pretended_cuda.held[first] == 1024
    address = session.plan(numbers(1000, 2000), numbers(0, 1024), 4096)
    session.begin_iteration()
    outer = session.begin_window((0, 2))
    made = [(pretended_cuda.allocate(size), size) for size in (1000, 2000, 77)]
    assert session.end_window(outer) == 2, "the third was not planned"
    assert [at for at, _ in made[:2]] == [address, address + 1024] and not address <= made[2][0] < address + 4096
    used = session.used()
    assert (used.blocks, used.inside_bytes, used.outside_bytes, used.beside_bytes, used.occupied) == (2, 3072, 0, 512, 0)
    assert allocator.cuda_level() == (1024 + 4096 + 512,) * 2, "the arena counts whole"
    for at, size in made:
        pretended_cuda.release(at, size)
    sizes, uppers = session.log()
    assert sizes.tolist() == [1000, 2000, 77] and uppers.tolist() == [3, 3, 3]
    assert allocator.cuda_level() == (1024 + 4096, 1024 + 4096 + 512) and pretended_cuda.allocate(0) is None
    assert session.plan(numbers(1), numbers(0), 1 << 30) == 0, "there is not that much"
    assert not pretended_cuda.errors, "kernels are not blamed for that"
    pretended_cuda.release(first, 900)


def test_an_arena_on_a_gpu_must_be_asked_for_before_the_first_tensor():
    with pytest.raises(ProfilerError, match="before the first tensor"):
        Session("cuda")


@pytest.mark.skipif(torch.version.cuda is None, reason="this torch is not built for CUDA")
def test_the_allocator_takes_the_place_of_pytorchs():
    code = ("import rematplan, torch; from remat_profiler import allocator; rematplan.plan_cuda(); rematplan.plan_cuda(); "
            "assert torch.cuda.get_allocator_backend() == 'pluggable'; assert allocator.cuda_level() == (0, 0)")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
