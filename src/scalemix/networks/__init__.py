"""Finds and changes the weights of any Equinox network; and two networks to start with."""

from scalemix.networks.check import check_rule
from scalemix.networks.mlp import MLP
from scalemix.networks.resnet import ResNet
from scalemix.networks.rules import LayerRule, register
from scalemix.networks.sites import Site, find_sites

__all__ = ["MLP", "LayerRule", "ResNet", "Site", "check_rule", "find_sites", "register"]
