"""Traces that several tests share, and the planner of those that compile; none needs a GPU."""

import warnings

import pytest
import torch

from remat_profiler.costs import cost_source
from remat_profiler.instance import Header, document
from remat_profiler.job import Job, traced
from rematplan import PlanWarning

from .replaying import required_bench


def trace_of(model, batch, shape, trace_device="cpu"):
    return traced(Job(model, batch, shape, "model:v100", trace_device))


def document_of(trace, device="model:v100", repeats=3):
    shape = tuple(trace.capture.inputs and next(iter(trace.capture.inputs)).meta["val"].shape[1:])
    header = Header("test", "test", 4, shape, "test")
    return document(header, trace, cost_source(device, repeats))


@pytest.fixture(scope="session")
def small():
    """conv-bn-relu, pooling, linear at batch 4 on 8x8 images."""
    return trace_of("toy:conv-bn-relu", 4, (3, 8, 8))


@pytest.fixture(scope="session")
def resnet18():
    return trace_of("torchvision:resnet18", 2, (3, 64, 64))


@pytest.fixture(scope="session")
def resnet50():
    return trace_of("torchvision:resnet50", 184, (3, 224, 224))


@pytest.fixture
def planner(monkeypatch, tmp_path_factory):
    """The binary, a cache of plans of its own, one thread, and warnings of a missing plan as errors."""
    monkeypatch.setenv("REMAT_BENCH", str(required_bench()))
    monkeypatch.setenv("REMATPLAN_CACHE", str(tmp_path_factory.getbasetemp() / "rematplan"))
    torch.set_num_threads(1)
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanWarning)
        yield
    torch._dynamo.reset()
