"""Stochastic depth: a prior by layer, under which deeper layers survive less often."""

from collections.abc import Sequence

from scalemix._parameters import Real
from scalemix.data.values import is_number
from scalemix.mixtures import Bernoulli
from scalemix.networks import ResNet, find_sites
from scalemix.structures import ADD, Structure


def stochastic_depth(
    blocks: ResNet | Sequence[str], last: float = 0.5, *, scale: Real = 1.0
) -> dict[str, Structure]:
    """The prior of stochastic depth: residual layers that survive less often the deeper they are.

    Of L residual layers, the l-th carries `ADD(Bernoulli(p_l))` with `p_l = 1 - l / L (1 - last)`,
    the linear decay of Huang et al. (2016). The first is nearly always there, and the last with
    probability `last`. At test time they multiply each layer by `p_l`; here predictions average
    over draws of the noise.

    The noise is on weights, so a layer that is dropped still adds what it makes of its bias. Freeze
    biases that are zero, as those of `ResNet` are at the start, and a rectified layer adds nothing.

    Parameters
    ----------
    blocks : ResNet or sequence of str
        A `scalemix.networks.ResNet`, or for any other network one layer of each residual block, by
        name, from the input to the output. `scalemix.networks.find_sites` gives the names. Where a
        block has several layers, name the last one, which alone decides what the block adds.
    last : float, default 0.5
        The probability that the last block survives, above 0 and up to 1.
    scale : float, default 1.0
        The standard deviation of the Gaussian that the noise multiplies; infinite is flat.

    Returns
    -------
    dict of str to Structure
        A prior for `Model`. Layers that are not residual are not in it, and so carry no prior. Add
        theirs with `|`.

    Raises
    ------
    ValueError
        If there are no residual layers, or `last` is no probability above zero. `Model` refuses
        layers that have no path around them.

    References
    ----------
    Huang, G., Sun, Y., Liu, Z., Sedra, D. and Weinberger, K. Q. (2016). Deep networks with
    stochastic depth. European Conference on Computer Vision.

    Examples
    --------
    >>> net = sx.networks.ResNet(3, "scalar", width=8, depth=5, key=key)
    >>> prior = sx.stochastic_depth(net, last=0.6)
    >>> [structure.mixture.keep for structure in prior.values()]
    [0.9, 0.8, 0.7, 0.6]
    >>> likelihood = sx.likelihoods.Gaussian()
    >>> sx.Model(net, prior, likelihood, frozen=["blocks.*.bias"])
    Model(ResNet, ADD on 4 sites, Gaussian)

    With dropout on the inputs:

    >>> sx.Model(net, prior | {"first": sx.ARD(sx.Bernoulli(0.9))}, likelihood)
    Model(ResNet, ARD/ADD on 5 sites, Gaussian)
    """
    names = _names(blocks)
    if not (is_number(last) and 0 < last <= 1):
        raise ValueError(
            f"last is the probability that the last block survives and must lie in (0, 1], got "
            f"{last!r}."
        )
    num = len(names)
    # To twelve digits, so that keep=0.7 is shown as such.
    keeps = [round(1 - place / num * (1 - last), 12) for place in range(1, num + 1)]
    return {
        name: ADD(Bernoulli(keep), scale=scale) for name, keep in zip(names, keeps, strict=True)
    }


def _names(blocks: ResNet | Sequence[str]) -> list[str]:
    if isinstance(blocks, ResNet):
        if not blocks.blocks:
            raise ValueError(
                "This ResNet has no residual layer that could be dropped: give it a depth of 2 or "
                "more."
            )
        return [f"blocks.{i}" for i in range(len(blocks.blocks))]
    if isinstance(blocks, list | tuple) and blocks and all(isinstance(n, str) for n in blocks):
        if len(set(blocks)) < len(blocks):
            raise ValueError(f"A block is named twice: {', '.join(blocks)}.")
        return list(blocks)
    sites = find_sites(blocks) if callable(blocks) else ()
    layers = f" Its layers are {', '.join(site.name for site in sites)}." if sites else ""
    raise ValueError(
        f"stochastic_depth takes a scalemix.networks.ResNet, or the names of layers, one of each "
        f"residual block, from the input to the output; got {type(blocks).__name__}.{layers}"
    )
