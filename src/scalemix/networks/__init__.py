"""Finds and changes the weights of any network; and two networks to start with."""

from scalemix.networks.calling import CalledNetwork, compute_in, with_call
from scalemix.networks.check import check_rule
from scalemix.networks.columns import ColumnLinear, ColumnReader, LevelTable
from scalemix.networks.mlp import MLP
from scalemix.networks.narrow import NarrowLayerNorm, NarrowRMSNorm
from scalemix.networks.nnx import from_nnx
from scalemix.networks.path_rules import PathRule
from scalemix.networks.resnet import ResNet
from scalemix.networks.rules import LayerRule, register
from scalemix.networks.sites import Site, find_sites
from scalemix.networks.trees import FunctionNetwork, from_function

__all__ = [
    "MLP",
    "CalledNetwork",
    "ColumnLinear",
    "ColumnReader",
    "FunctionNetwork",
    "LayerRule",
    "LevelTable",
    "NarrowLayerNorm",
    "NarrowRMSNorm",
    "PathRule",
    "ResNet",
    "Site",
    "check_rule",
    "compute_in",
    "find_sites",
    "from_function",
    "from_nnx",
    "register",
    "with_call",
]
