"""Fits: one, many at once, ensembles whose settings the data choose, and recipes."""
