"""Fits: one, many at once, ensembles whose settings the data choose, and recipes.

Nothing is imported here, so that the settings of recipes can be read without JAX.
"""
