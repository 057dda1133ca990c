"""Smaller networks of the same classes, from networks that are zero in places."""

from scalemix.networks.cutting.cut import Cut, Cutter, Member

__all__ = ["Cut", "Cutter", "Member"]
