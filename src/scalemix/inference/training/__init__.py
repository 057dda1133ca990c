"""Engines that train by gradient steps, the loop they share, and their objectives."""
