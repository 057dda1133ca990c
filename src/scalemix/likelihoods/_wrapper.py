"""Likelihoods that are made of another one."""

import equinox as eqx
import jax

from scalemix.likelihoods._base import Likelihood


class Wrapper(Likelihood):
    """A likelihood that is made of another one, whose targets are of the same kind."""

    likelihood: Likelihood

    @property
    def innermost(self) -> Likelihood:
        return self.likelihood.innermost

    @property
    def noise_outputs(self) -> tuple[int, ...]:
        return self.likelihood.noise_outputs

    def learnable(self) -> Likelihood:
        nothing = jax.tree.map(lambda _: False, self)
        return eqx.tree_at(lambda part: part.likelihood, nothing, self.likelihood.learnable())

    # Of most likelihoods these are facts about the class, here they are about the instance.

    @property
    def discrete(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.likelihood.discrete

    @property
    def continuous_units(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.likelihood.continuous_units

    @property
    def support(self) -> tuple[float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.likelihood.support

    @property
    def ordered(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.likelihood.ordered
