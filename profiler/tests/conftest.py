"""Traces that several tests share; none needs a GPU."""

import pytest

from remat_profiler.costs import cost_source
from remat_profiler.instance import Header, document
from remat_profiler.job import Job, traced


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
