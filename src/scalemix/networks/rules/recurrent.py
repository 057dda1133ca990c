"""`eqx.nn.GRUCell` and `eqx.nn.LSTMCell`: one weight reads the input, one the hidden state.

A row is a unit of what the weight reads. All its gates share its scale.
"""

from scalemix.networks.rules._rule import LayerRule

READ = LayerRule(row_axis=1, output_axis=0, weight="weight_ih")
TURN = LayerRule(row_axis=1, output_axis=0, weight="weight_hh")
