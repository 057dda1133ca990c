"""What a fit returns."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from scalemix._mesh import check_mesh
from scalemix._random import check_key, side_key
from scalemix.data.checks import check_inputs, inputs_as_seen
from scalemix.data.scaling import Scaling
from scalemix.model.model import Model
from scalemix.posterior.history import History
from scalemix.posterior.networks import AnyNetworks
from scalemix.posterior.predictive import DrawSource, Predictive

if TYPE_CHECKING:
    from scalemix.posterior.diagnostics import Diagnostics, ParetoK
    from scalemix.posterior.pruning import Pruned
    from scalemix.posterior.relevance import Relevance

__all__ = ["History", "Posterior"]


class Posterior(eqx.Module):
    """What is believed about a network after the data. `scalemix.fit` returns it.

    Attributes
    ----------
    networks : AnyNetworks
        The distribution over networks that predictions draw from.
    model : Model
        The model with what was learned in it; of an ensemble, that of the first member.
    members : list of Posterior
        The posteriors that predictions mix: those of an ensemble, or this one alone.
    scaling : Scaling
        The means and standard deviations by which inputs and targets were standardised.
    history : History
        How the fit went.
    key : PRNGKeyArray
        The key of predictions that are given none, so that these too can be repeated.
    score_spread : float or numpy.ndarray
        The spread of normal scores on held-out rows, by which intervals are calibrated; one where
        no rows were held out. Of several targets each has its own.

    Examples
    --------
    >>> post
    Posterior(Model(MLP, ARD on 3 sites, Gaussian), GaussianNetworks, after 50 steps)
    >>> post.predict(x[:2]).mean.shape
    (2,)
    >>> len(post.members)
    1
    """

    networks: AnyNetworks
    scaling: Scaling
    history: History
    key: PRNGKeyArray
    score_spread: float | np.ndarray = 1.0

    @property
    def model(self) -> Model:
        """The model with what was learned in it; of an ensemble, that of the first member."""
        return self.networks.model

    @property
    def members(self) -> "list[Posterior]":
        """The posteriors that predictions mix: those of an ensemble, or this one alone."""
        if not self.networks.lead:
            return [self]
        return [
            Posterior(
                networks,
                self.scaling,
                jax.tree.map(lambda values, i=i: values[i], self.history),
                side_key(self.key, i),
            )
            for i, networks in enumerate(self.networks.members)
        ]

    def predict(
        self,
        x: Any,
        *,
        num_draws: int | None = None,
        key: PRNGKeyArray | None = None,
        mesh: Mesh | None = None,
    ) -> Predictive:
        """The predictive distribution of the targets of some inputs.

        Nothing is computed yet; see `Predictive`.

        Parameters
        ----------
        x : array_like
            Inputs, one example a row, in the units of the data that were fitted.
        num_draws : int, optional
            How many networks to draw. By default one where the weights are certain, 100 where they
            are not (an ensemble rounds up so that each member has as many), and for chains as many
            as there are samples, up to 1,000. Draws go round the members of an ensemble, and round
            the chains.
        key : PRNGKeyArray, optional
            The randomness of the draws; by default the posterior's own, so that predictions can be
            repeated.
        mesh : jax.sharding.Mesh, optional
            The devices to use, as in `fit`: draws are spread along `members`, and rows along
            `data`. By default local devices along `data`, one for every 1,024 rows.

        Returns
        -------
        Predictive
            With `mean`, `std`, `epistemic`, `aleatoric`, `quantile`, `interval`, `log_prob`, `cdf`
            and `sample`.

        Examples
        --------
        >>> pred = post.predict(x, num_draws=20)
        >>> pred.mean.shape, pred.num_draws
        ((40,), 20)
        """
        num_draws = self.networks.default_draws if num_draws is None else num_draws
        if num_draws < 1:
            raise ValueError(f"num_draws must be at least 1, got {num_draws}.")
        # All predictions with the posterior's own key have the same draws.
        owner = self if key is None else None
        key = self.key if key is None else check_key(key, "key")
        model = self.model
        seen = inputs_as_seen(check_inputs(x, model), model, self.scaling)
        devices = None if mesh is None else check_mesh(mesh)
        source = DrawSource(
            self.networks, model.likelihood, self.scaling, key, self.score_spread, devices, owner
        )
        return Predictive(source, seen, num_draws)

    def save(self, path: str | Path, *, metadata: dict[str, Any] | None = None) -> None:
        """Write the posterior to one file, which `scalemix.load` reads.

        Any earlier file is replaced at once, and survives if this fails. A network that is not a
        `scalemix.networks.MLP` or `ResNet`, or has an activation that is not in `jax.nn`, is saved
        without its code: `load` then asks for `network=`, one of the same class and sizes.

        Parameters
        ----------
        path : str or pathlib.Path
            Where to write.
        metadata : dict, optional
            Anything that JSON holds, for `scalemix.storage.read` to give back.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from scalemix import storage
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.scalemix"
        >>> post.save(path, metadata={"target": "price"})
        >>> storage.info(path).metadata
        {'target': 'price'}
        """
        # Files know posteriors, so a posterior imports them only when it is asked.
        from scalemix.posterior.storage import write

        write(path, self, metadata)

    def export(
        self,
        path: str | Path,
        *,
        num_draws: int | None = None,
        key: PRNGKeyArray | None = None,
        platforms: tuple[str, ...] | None = None,
    ) -> None:
        """Write predictions as a compiled function, which needs JAX alone to run.

        `jax.export.deserialize(path.read_bytes()).call(x)` takes a batch of any number of rows, in
        the units of the data that were fitted and in the network's precision, and gives a dict of
        `mean`, `std`, `epistemic` and `aleatoric`, as `predict` does. A column whose spread is
        small beside its distance from zero must be centred before it is fitted, since single
        precision would lose it on the way in. Rows with a position that a table does not have give
        "not a number".

        Parameters
        ----------
        path : str or pathlib.Path
            Where to write. Any earlier file is replaced at once.
        num_draws : int, optional
            How many networks to draw, as in `predict`.
        key : PRNGKeyArray, optional
            The randomness of the draws; by default the posterior's own.
        platforms : tuple of str, optional
            What to compile for, such as `("cpu", "cuda")`; by default the kind of this machine.

        Raises
        ------
        ValueError
            If it is not known what one input looks like.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from jax import export
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.jaxexport"
        >>> post.export(path)
        >>> function = export.deserialize(path.read_bytes())
        >>> out = function.call(x.astype(np.float32))
        >>> np.allclose(out["mean"], post.predict(x).mean, rtol=1e-4, atol=1e-4)
        True
        """
        from scalemix.posterior.exporting import export

        export(self, path, num_draws=num_draws, key=key, platforms=platforms)

    def relevance(self, *, threshold: float = 0.01) -> "Relevance":
        """How much each input, hidden unit and layer matters, and which are switched off.

        Parameters
        ----------
        threshold : float, default 0.01
            The signal to noise below which a unit or a layer counts as off.

        Returns
        -------
        Relevance
            With `inputs`, `units` and `layers`; `print` shows a table.

        Examples
        --------
        >>> relevance = post.relevance()
        >>> relevance.inputs.shape
        (3,)
        >>> list(relevance.layers)
        ['layers.0', 'layers.1', 'layers.2']
        """
        from scalemix.posterior.relevance import find_relevance

        return find_relevance(self, threshold)

    def prune(
        self,
        x: Any = None,
        *,
        threshold: float = 0.01,
        tolerance: float | None = None,
        mask_only: bool = False,
        drop_inputs: bool = False,
        same_shape: bool = True,
        as_function: bool = False,
        timed: bool = False,
    ) -> "Pruned":
        """A smaller posterior, without the units and layers that are off, and a report.

        What removed parts add regardless of the input goes into the biases that remain. A layer
        under `ADD` goes as a whole or not at all, since its rows have no scales of their own.

        The network is traced, and comes back as one of its own class with other sizes, which
        computes what it would under a mask. What cannot be followed, such as a size written into
        the code, stays under the mask, and the report names the line. `equinox.nn.MLP` has one
        width for all layers, and becomes a `scalemix.networks.MLP`; a norm that loses places may
        become a `scalemix.networks.NarrowLayerNorm` or `NarrowRMSNorm`. To load such a posterior
        from a file, give `load` a network of the sizes that are left.

        Parameters
        ----------
        x : array_like, optional
            Inputs to compare predictions at, before and after, two different rows or more; needed
            for `tolerance`.
        threshold : float, default 0.01
            What counts as off, as in `relevance`.
        tolerance : float, optional
            How much the predictive mean at `x` may change, in units of its spread over the rows.
            The least relevant parts then go first, and only as many as this allows.
            `threshold=inf` makes everything a candidate.
        mask_only : bool, default False
            Set the weights of what is off to zero, and leave all shapes alone.
        drop_inputs : bool, default False
            Let the network take only the columns `report.inputs`. By default it still takes the
            inputs that are off, and ignores them.
        same_shape : bool, default True
            Members of an ensemble keep one shape, that of the largest. If this is False, each is
            also pruned by itself, to a size of its own: see `Pruned.members`.
        as_function : bool, default False
            Let a network with sizes in its code come back as the operations that were traced.
            These take inputs of one shape, and no file can hold them.
        timed : bool, default False
            Measure how long a pass takes before and after.

        Returns
        -------
        Pruned
            With `posterior`, `network` and `report`; `print` shows the report.

        Raises
        ------
        ValueError
            If the posterior is of samples, or an argument does not fit.

        Warns
        -----
        UserWarning
            If predictions at `x` change by more than 0.05 of their spread, and no tolerance is set.

        Examples
        --------
        >>> pruned = post.prune(x)
        >>> before, after = pruned.report.num_parameters
        >>> before >= after
        True
        """
        from scalemix.posterior.pruning import prune

        return prune(
            self, x, threshold=threshold, tolerance=tolerance, mask_only=mask_only,
            drop_inputs=drop_inputs, same_shape=same_shape, as_function=as_function, timed=timed,
        )  # fmt: skip

    def pareto_k(
        self,
        x: Any,
        y: Any,
        *,
        num_draws: int = 1000,
        sample_weight: Any = None,
        key: PRNGKeyArray | None = None,
    ) -> "ParetoK":
        """How far importance weights of the noise can be trusted, by the k-hat of their tail.

        The weights are those of draws of noise from the prior, in proportion to the likelihood of
        all rows together, and of each row by itself. k-hat below 0.5 is good, and above 0.7 few
        draws have nearly all of the weight.

        Parameters
        ----------
        x : array_like
            Inputs, such as those of the training data.
        y : array_like
            Their targets, one for each row.
        num_draws : int, default 1000
            How many draws of noise to weigh, at least 21.
        sample_weight : array_like, optional
            The number of rows that each row counts as in the likelihood of all rows.
        key : PRNGKeyArray, optional
            The randomness of the draws; by default the posterior's own.

        Returns
        -------
        ParetoK
            With k-hat and the effective number of draws, by batch and by example; `print` shows
            them.

        Raises
        ------
        ValueError
            If the posterior is not of noise training, or of an ensemble, whose `members` have it.

        Examples
        --------
        >>> dropout = sx.Model(net, sx.ARD(sx.Gaussian(0.1)), sx.likelihoods.Gaussian())
        >>> noisy = sx.fit(dropout, x, y, sx.NoiseTraining(steps=20, num_draws=2), key=key)
        >>> k = noisy.pareto_k(x, y, num_draws=50)
        >>> k.examples.shape, round(k.threshold, 3)
        ((40,), 0.411)
        """
        from scalemix.posterior.diagnostics import find_pareto_k

        return find_pareto_k(self, x, y, num_draws, sample_weight, key)

    # What follows is of posteriors that MCMC sampled; others raise a `ValueError` that says so.
    # Diagnostics are made of posteriors, so they too are imported only when they are asked for.

    def diagnostics(self, x: Any = None) -> "Diagnostics":
        """Whether the chains of `MCMC` agree, in the function and in the weights.

        Parameters
        ----------
        x : array_like, optional
            Inputs to compare the network's outputs at; by default a few of the training inputs.

        Returns
        -------
        Diagnostics
            R-hat, effective sample sizes, divergences, energy and acceptance; `print` shows them.

        Raises
        ------
        ValueError
            If the posterior was not sampled by `MCMC`.

        Examples
        --------
        >>> post.diagnostics()
        Traceback (most recent call last):
            ...
        ValueError: Only a posterior that MCMC sampled has chains: fit with method=scalemix.MCMC().
        """
        from scalemix.posterior.diagnostics import diagnose

        return diagnose(self, x)

    def to_arviz(self) -> Any:
        """The samples of `MCMC`, and each step's statistics, for ArviZ.

        Weights are those of the network, which sees inputs and targets as `scaling` makes them.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Whichever the installed version of ArviZ uses. It holds the weights of each site, its
            scales as `site.group`, everything else that was learned by its name, and the
            statistics of each step. Among these `lp` is the log density of data and unknowns, in
            the coordinates that the chains moved in.

        Raises
        ------
        ValueError
            If the posterior was not sampled by `MCMC`.

        Examples
        --------
        >>> spiky = sx.Model(net, sx.ARD(sx.Bernoulli(0.5)), sx.likelihoods.Gaussian())
        >>> short = sx.MCMC(num_chains=1, num_warmup=2, num_samples=3, warm_start=False)
        >>> sampled = sx.fit(spiky, x, y, short, key=key)
        >>> sampled.to_arviz().posterior["layers.0.unit"].shape
        (1, 3, 3)
        """
        from scalemix.posterior.diagnostics import to_arviz

        return to_arviz(self)

    def inclusion_probabilities(self) -> dict[str, dict[str, np.ndarray]]:
        """The posterior probability of each Bernoulli scale to be on.

        Returns
        -------
        dict
            By site, and in it by group of scales, an array with one probability for each scale.

        Raises
        ------
        ValueError
            If the posterior was not sampled by `MCMC`, or its prior has no Bernoulli mixture.

        Examples
        --------
        >>> spiky = sx.Model(net, sx.ARD(sx.Bernoulli(0.5)), sx.likelihoods.Gaussian())
        >>> short = sx.MCMC(num_chains=1, num_warmup=2, num_samples=3, warm_start=False)
        >>> sampled = sx.fit(spiky, x, y, short, key=key)
        >>> sampled.inclusion_probabilities()["layers.0"]["unit"].shape
        (3,)
        """
        from scalemix.posterior.diagnostics import inclusion_probabilities

        return inclusion_probabilities(self)

    def __repr__(self) -> str:
        steps = self.history.objective.shape[-1]
        return f"Posterior({self.model!r}, {self.networks.title}, after {steps} steps)"
