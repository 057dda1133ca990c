"""`eqx.nn.Embedding`: a row is a dimension, and each token has its weights."""

from scalemix.networks.rules._rule import LayerRule

EMBEDDING = LayerRule(row_axis=1, output_axis=None, token_axis=0)
