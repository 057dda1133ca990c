"""`eqx.nn.Conv` and `eqx.nn.ConvTranspose` in any number of dimensions, grouped or not: a row is an
input channel, an output a filter."""

from scalemix.networks.rules._rule import LayerRule

CONV = LayerRule(
    row_axis=1,
    output_axis=0,
    ndim=lambda layer: layer.num_spatial_dims + 2,
    groups=lambda layer: layer.groups,
)
