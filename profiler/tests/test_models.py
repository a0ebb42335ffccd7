"""The own networks have the published sizes."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from remat_profiler.models import FAMILIES, builder, listing, preact


def parameters(model):
    with FakeTensorMode():
        return sum(parameter.numel() for parameter in builder(model)().parameters())


def convolutions(model):
    with FakeTensorMode():
        modules = builder(model)().named_modules()
        return sum(isinstance(m, torch.nn.Conv2d) and "projection" not in name for name, m in modules)


def test_depths_are_those_of_the_names():
    assert convolutions("preact:resnet200") + 1 == 200
    assert convolutions("preact:resnet1001") + 1 == 1001
    assert convolutions("preact:resnet1001-he") + 1 == 1001


def test_parameter_counts_agree_with_the_publications():
    # He et al. 2016 print 10.2 M for ResNet-1001 with 10 classes and 64.7 M for ResNet-200.
    classifier = 256 * 990 + 990
    assert abs(parameters("preact:resnet1001-he") - classifier - 10.2e6) < 0.15e6
    assert abs(parameters("preact:resnet200") - 64.7e6) < 0.3e6


def test_rotors_resnet1001_has_339_stages():
    layout = preact.LAYOUTS["resnet1001"]
    stem, head = 3, 3  # conv, bn, relu; bn, relu, pooling: entries of its nn.Sequential
    assert stem + sum(layout.blocks) + head == 339


def test_every_family_is_listed():
    text = listing()
    for prefix, family in FAMILIES.items():
        assert family.names() and f"{prefix}:{family.names()[0]}" in text
