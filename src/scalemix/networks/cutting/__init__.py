"""Smaller networks of the same classes, from networks that are zero in places."""

from scalemix.networks.cutting.cut import Cut, Cutter
from scalemix.networks.cutting.member import Member, Origin
from scalemix.networks.cutting.shrinking import Shrinker, Shrunk

__all__ = ["Cut", "Cutter", "Member", "Origin", "Shrinker", "Shrunk"]
