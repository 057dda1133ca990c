import inspect
from typing import get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import scalemix as sx
from scalemix import structures
from scalemix.networks.groups import GROUPS
from scalemix.structures import By, Structure

MIXTURE = sx.HalfCauchy(1.0)
SHAPES = {
    sx.ARD: {"unit": (5,)},
    sx.DropConnect: {"weight": (3, 5)},
    sx.ADD: {"layer": ()},
    sx.ARDADD: {"unit": (5,), "layer": ()},
}


def test_every_structure_has_a_row():
    defined = {
        value
        for value in vars(structures).values()
        if inspect.isclass(value) and issubclass(value, Structure) and value is not Structure
    }
    assert defined == set(SHAPES)


def test_every_structure_has_a_sentence_of_its_own():
    sentences = {structure(MIXTURE).summary for structure in SHAPES}
    sentences |= {structure(MIXTURE, by="output").summary for structure in (sx.ARD, sx.ARDADD)}
    assert len(sentences) == len(SHAPES) + 2
    assert all(sentence.endswith(".") for sentence in sentences)


@pytest.mark.parametrize("structure", SHAPES)
def test_who_shares_a_scale(structure):
    groups = structure(MIXTURE).groups
    (site,) = sx.networks.find_sites(eqx.nn.Linear(5, 3, key=jax.random.key(0)))
    assert {group: GROUPS[group].shape(site) for group in groups} == SHAPES[structure]
    assert all(mixture is MIXTURE for mixture in groups.values())


def test_the_layer_may_have_a_mixture_of_its_own():
    layer = sx.InverseGamma(3.0, 3.0)
    assert sx.ARDADD(MIXTURE, layer).groups == {"unit": MIXTURE, "layer": layer}


def test_scales_may_go_by_output():
    (site,) = sx.networks.find_sites(eqx.nn.Linear(5, 3, key=jax.random.key(0)))
    for structure, others in ((sx.ARD, {}), (sx.ARDADD, {"layer": ()})):
        prior = structure(MIXTURE, by="output")
        shapes = {group: GROUPS[group].shape(site) for group in prior.groups}
        assert shapes == {"output": (3,), **others}
        assert prior.title == f"{structure.__name__} by output"
        assert repr(prior) == f"{structure.__name__}(mixture=HalfCauchy(scale=1), by='output')"
        # Every kind that can be asked for is one that networks know.
        for by in get_args(By):
            assert by in GROUPS
            assert by in structure(MIXTURE, by=by).groups
        with pytest.raises(ValueError, match=r"by must be one of .*'filter'"):
            structure(MIXTURE, by="filter")


@pytest.mark.parametrize("structure", SHAPES)
def test_the_base_may_be_another(structure):
    prior = structure(MIXTURE, base=sx.bases.StudentT(3))
    assert prior.title == f"{structure.__name__} with a StudentT base"
    assert prior.base.df == 3.0
    assert repr(prior).endswith(", base=StudentT(df=3))")
    # As fits have them, with arrays for numbers.
    assert "df=" in repr(jax.tree.map(jnp.float32, prior))
    with pytest.raises(ValueError, match=f"{structure.__name__}: base must be one of"):
        structure(MIXTURE, base=sx.bases.Laplace)


@pytest.mark.parametrize("structure", SHAPES)
def test_impossible_structures_are_refused(structure):
    with pytest.raises(ValueError, match=f"{structure.__name__} takes a scale mixture"):
        structure(sx.HalfCauchy)
    with pytest.raises(ValueError, match="scale must be positive, got -1"):
        structure(MIXTURE, scale=-1.0)
    with pytest.raises(ValueError, match="scale must be positive"):
        structure(MIXTURE, scale=jnp.array([1.0, 0.0]))
