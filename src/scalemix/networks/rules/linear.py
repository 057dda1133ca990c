"""`eqx.nn.Linear`: a row is an input."""

from scalemix.networks.rules._rule import LayerRule

LINEAR = LayerRule(row_axis=1, output_axis=0)
