"""Convolutions apart from networks: what distinguishes two of them, what each algorithm costs.

`problem` names a convolution, `table` is the CSV that measurements and the model share, `cudnn` the
library through ctypes, `runners` measure, `model` computes, `join` puts rows into an instance. Nothing
here knows of graphs; instances are read as JSON only.
"""

from .problem import BACKWARD_DATA, BACKWARD_FILTER, DIRECTIONS, FORWARD, Convolution

__all__ = ["BACKWARD_DATA", "BACKWARD_FILTER", "DIRECTIONS", "FORWARD", "Convolution"]
