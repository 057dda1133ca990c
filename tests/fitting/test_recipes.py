"""Recipes: plain values in, the objects they stand for out."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix import InputWarning
from scalemix.data.input_layout import join, of_levels, of_numbers
from scalemix.fitting.building import (
    build_method,
    inputs_to_read,
    reads_all,
    reads_columns,
    ways_to_read,
)
from scalemix.fitting.recipes import MIXTURES, PRIORS, Recipe
from scalemix.fitting.tried import build_candidates
from scalemix.inference.training import loop
from scalemix.inference.training.engine import Engine
from scalemix.mixtures import ScaleMixture

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)
CLASSES = (Y > 0).astype(int)
# As many members as trials, so that both are one program.
QUICK = {"hidden": (4, 4), "num_members": 6, "num_trial_members": 1, "max_steps": 20}


def test_every_family_has_a_name_and_parameters():
    named = {kind for kind, _ in MIXTURES.values()}
    families = {getattr(sx.mixtures, name) for name in sx.mixtures.__all__} - {ScaleMixture}
    assert named == families
    for name, (kind, parameters) in MIXTURES.items():
        assert isinstance(kind(**parameters), ScaleMixture)
        inference = "em" if name == "log-uniform" else "noise"
        recipe = Recipe(mixture=name, inference=inference, prior="ard")
        assert type(recipe.build_mixture()) is kind


def test_scales_without_a_maximum_are_refused():
    with pytest.raises(ValueError, match=r"has no most probable scales.* Use prior='ard'"):
        Recipe(mixture="log-uniform")
    # Without a layer that has a path around it there are no scales of layers.
    Recipe(mixture="log-uniform", hidden=(8,))


def test_auto_suits_the_inference():
    assert isinstance(Recipe().build_mixture(), sx.InverseGamma)
    assert isinstance(Recipe(inference="noise").build_mixture(), sx.Bernoulli)
    assert isinstance(Recipe(inference="mcmc").build_mixture(), sx.InverseGamma)


def test_parameters_that_are_named_replace_defaults():
    mixture = Recipe(inference="noise", mixture_parameters={"keep": 0.8}).build_mixture()
    assert float(mixture.keep) == 0.8
    mixture = Recipe(mixture_parameters={"rate": 7}).build_mixture()
    assert (float(mixture.shape), float(mixture.rate)) == (3.0, 7.0)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"task": "ranking"}, "task must be one of regression, classification; got 'ranking'"),
        ({"prior": "ARD"}, "prior must be one of ard, .*got 'ARD'"),
        ({"mixture": "cauchy"}, "mixture must be one of auto, bernoulli, .*half-cauchy"),
        ({"inference": None}, "inference must be one of em, noise, mcmc; got None"),
        ({"hidden": ()}, "one hidden layer or more, got none"),
        ({"hidden": (5, 0)}, "Each width of hidden must be a positive whole number, got 0"),
        ({"hidden": (5, 6)}, r"hidden=\(5, 6\).*residual=False"),
        ({"num_members": 0}, "num_members must be a positive whole number, got 0"),
        ({"num_members": True}, "num_members must be a positive whole number, got True"),
        ({"max_steps": 10.5}, "max_steps must be a positive whole number, got 10.5"),
        ({"learning_rate": "auto"}, "learning_rate must be a positive number, got 'auto'"),
        ({"temperature": "cold"}, "temperature must be a positive number, got 'cold'"),
        ({"noise_floor": -1.0}, "noise_floor must be a positive number, got -1.0"),
        ({"mixture": "bernoulli"}, "no closed-form update.*inverse-gamma.*inference='noise'"),
        ({"mixture": "log-uniform", "inference": "noise"}, "improper.*half-cauchy"),
        ({"mixture_parameters": {"keep": 0.9}}, "'inverse-gamma' takes shape, rate; got 'keep'"),
        ({"mixture_parameters": {"rate": "3"}}, "rate must be a number, got '3'"),
        ({"mixture_parameters": {"rate": -1.0}}, "rate must be positive"),
        ({"mixture": "log-uniform", "mixture_parameters": {"a": 1}}, "has no parameters"),
    ],
)
def test_impossible_settings_are_refused(settings, reason):
    with pytest.raises(ValueError, match=reason):
        Recipe(**settings)


def test_recipes_are_plain_values():
    assert [Recipe().plan(n).num_members for n in (5_000, 20_000, 20_001)] == [16, 16, 8]
    # Many rows of classes: slower, and trials that see what is learned by heart in the end.
    plans = [Recipe(task=task).plan(20_001) for task in ("regression", "classification")]
    told = [(plan.learning_rate, plan.trial_share * plan.steps) for plan in plans]
    assert told == [(0.01, 2_500), (0.003, 4_000)]
    # Fewer rows take fewer steps; and the fewest a higher rate, unless they are of classes.
    plans = [Recipe().plan(n) for n in (500, 501, 1_000, 1_001, 5_001)]
    assert [plan.steps for plan in plans] == [4_000, 6_000, 6_000, 8_000, 10_000]
    assert [plan.trial_share * plan.steps for plan in plans] == [1_500, 1_500, 1_500, 2_500, 3_000]
    assert [plan.learning_rate for plan in plans] == [0.02, 0.01, 0.01, 0.01, 0.01]
    assert Recipe(task="classification").plan(300)[:2] == (4_000, 64)
    assert Recipe(task="classification").plan(300).learning_rate == 0.01
    told = Recipe(task="classification", learning_rate=0.02)
    assert told.plan(20_001).learning_rate == told.training(20_001)["learning_rate"] == 0.02
    assert told.settings(20_001)["learning_rate"] == 0.02
    recipe = Recipe(hidden=[4, 4], num_members=np.int64(3))
    assert recipe == Recipe(hidden=(4, 4), num_members=3)
    assert recipe == Recipe(**dataclasses.asdict(recipe))
    assert Recipe(hidden=8).hidden == (8,)


def test_layers_without_a_path_around_them_have_ard():
    for prior, structure in PRIORS.items():
        built = Recipe(prior=prior, hidden=(4, 4)).build_prior()
        assert type(built) is structure
        plain = Recipe(prior=prior, hidden=(4, 4), residual=False).build_prior()
        single = Recipe(prior=prior, hidden=(4,)).build_prior()
        wanted = structure if prior in ("ard", "drop-connect") else sx.ARD
        assert type(plain) is type(single) is wanted


def test_plain_networks_have_the_widths_they_were_given():
    network = Recipe(hidden=(5, 3), residual=False).build_network(7, 2, key=KEY)
    assert [layer.weight.shape for layer in network.layers] == [(5, 7), (3, 5), (2, 3)]
    assert network(np.ones(7, np.float32)).shape == (2,)
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        sx.networks.MLP(7, 2, (5, 0), key=KEY)


def test_held_out_rows_choose_among_settings():
    fitted = Recipe(**QUICK).fit(X, Y, key=KEY)
    assert [(t.noise_floor, t.temperature) for t in fitted.trials] == [
        (floor, temperature) for floor in (1e-3, 0.1) for temperature in (0.1, 0.3, 1.0)
    ]
    assert sum(t.weight for t in fitted.trials) == pytest.approx(1.0)
    assert sum(t.num_members for t in fitted.trials) == 6
    assert np.isfinite([t.score for t in fitted.trials]).all()
    assert len(fitted.posterior.members) == 6
    # The likelihoods of the members are those of the settings that were chosen.
    chosen = [t.noise_floor for t in fitted.trials for _ in range(t.num_members)]
    floors = [member.model.likelihood.floor for member in fitted.posterior.members]
    np.testing.assert_allclose(floors, chosen, rtol=1e-6)
    # So few rows that nothing can be held out are fitted all the same.
    with pytest.warns(InputWarning, match="only 1 row to learn from"):
        few = Recipe(**QUICK).fit(X[:1], Y[:1], key=KEY)
    assert np.isnan([t.score for t in few.trials]).all()
    assert np.isfinite(few.posterior.predict(X).mean).all()


def test_settings_that_are_given_are_not_tried():
    fitted = Recipe(temperature=0.5, noise_floor=0.2, **QUICK).fit(X, Y, key=KEY)
    assert fitted.trials == ()
    assert float(fitted.posterior.model.likelihood.floor) == pytest.approx(0.2)


def test_noise_training_makes_an_ensemble():
    recipe = Recipe(inference="noise", num_draws=2, **QUICK)
    posterior = recipe.fit(X, Y, key=KEY).posterior
    assert len(posterior.members) == 6
    assert isinstance(posterior.model.structures["blocks.0"].mixture, sx.Bernoulli)
    # The same key gives the same fit, another key another.
    again, other = (recipe.fit(X, Y, key=jax.random.key(seed)).posterior for seed in (0, 1))
    np.testing.assert_array_equal(posterior.predict(X).mean, again.predict(X).mean)
    assert not np.allclose(posterior.predict(X).mean, other.predict(X).mean)


def test_classes_are_counted_unless_said():
    recipe = Recipe(task="classification", temperature=1.0, **QUICK)
    fitted = recipe.fit(X, CLASSES, key=KEY)
    # The temperature is given, and there is nothing else to try.
    assert fitted.trials == ()
    assert fitted.posterior.predict(X[:5]).mean.shape == (5, 2)
    posterior = recipe.fit(X, CLASSES, key=KEY, num_classes=4).posterior
    assert posterior.predict(X[:5]).mean.shape == (5, 4)
    for y, num, reason in [
        (np.zeros(60, int), None, "one class only"),
        (CLASSES + 2, 3, "holds the class 3, and num_classes=3"),
        (CLASSES - 1, None, "numbered from 0"),
        (CLASSES.astype(float), None, "got the type float64"),
    ]:
        with pytest.raises(ValueError, match=reason):
            recipe.fit(X, y, key=KEY, num_classes=num)


def test_a_table_is_wanted():
    for x in (X[:, 0], X[:0], X[:, :0]):
        with pytest.raises(ValueError, match=r"x must be a table.*got the shape"):
            Recipe(**QUICK).fit(x, Y[: len(x)], key=KEY)


def test_an_interrupted_recipe_continues(tmp_path, monkeypatch):
    recipe = Recipe(**QUICK)
    whole = recipe.fit(X, Y, key=KEY)
    path = tmp_path / "run.ckpt"
    original, calls = loop.run, []

    def second_fails(*arguments, **named):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments, **named)

    monkeypatch.setattr(loop, "run", second_fails)
    with pytest.raises(KeyboardInterrupt):
        recipe.fit(X, Y, key=KEY, checkpoint=path)
    monkeypatch.undo()
    resumed = recipe.fit(X, Y, key=KEY, checkpoint=path, resume=True)
    assert resumed.trials == whole.trials
    np.testing.assert_array_equal(
        resumed.posterior.predict(X).mean, whole.posterior.predict(X).mean
    )


def test_methods_depend_on_the_number_of_rows():
    few, many = (Recipe().training(num) for num in (300, 9000))
    assert (few["batch_size"], many["batch_size"]) == (64, 128)
    assert few["steps"] < many["steps"]
    given = Recipe(max_steps=7, batch_size=5).training(9000)
    assert (given["steps"], given["batch_size"], given["chunk_steps"]) == (7, 5, 7)
    assert isinstance(build_method(Recipe(inference="noise"), 10), Engine)


def test_settings_are_those_that_count():
    em = Recipe().settings(300)
    # Where the family was named, columns would have no scales of their own.
    assert em["mixture"] == "auto"
    again = Recipe(**em | {"hidden": tuple(em["hidden"])})
    assert again.settings(300) == em
    layout = join([of_numbers(3), of_numbers()])
    assert reads_columns(again, layout)
    assert not reads_columns(Recipe(mixture="inverse-gamma"), layout)
    assert em["mixture_parameters"] == {"shape": 3.0, "rate": 3.0}
    assert (em["num_members"], em["batch_size"], em["num_trial_members"]) == (16, 64, 2)
    large = Recipe().settings(20_001)
    assert (large["num_members"], large["batch_size"], large["num_trial_members"]) == (8, 512, 1)
    assert not {"objective", "num_draws", "sampler"} & set(em)
    fixed = Recipe(temperature=0.3, noise_floor=0.1).settings(300)
    assert "num_trial_members" not in fixed
    noise = Recipe(inference="noise", task="classification").settings(9000)
    assert not {"temperature", "noise_floor", "sampler"} & set(noise)
    assert (noise["objective"], noise["batch_size"]) == ("tail_adaptive", 128)
    chains = Recipe(inference="mcmc").settings(300)
    assert not {"batch_size", "objective", "temperature"} & set(chains)
    assert (chains["max_steps"], chains["noise_floor"]) == (3_200, 1e-3)
    # Their warm start has a rate.
    assert chains["learning_rate"] == 0.01
    assert Recipe(inference="noise", noise_floor=0.2).settings(300)["noise_floor"] == 0.2
    for settings in (em, fixed, noise, chains):
        assert json.loads(json.dumps(settings)) == settings


def test_chains_are_half_spent_on_adapting():
    method = build_method(Recipe(inference="mcmc", num_members=3, max_steps=4_000), 60)
    assert isinstance(method, sx.MCMC)
    assert (method.num_chains, method.num_warmup, method.sampler) == (3, 2_000, "mclmc")
    assert (method.num_samples, method.thin, method.warm_start_steps) == (500, 4, 4_000)


def test_chains_have_a_plan_of_all_rows_and_no_kinks():
    recipe = Recipe(inference="mcmc", max_steps=500, residual=True)
    assert recipe.plan(100)[:3] == (500, 100, 8)
    assert recipe.training(100)["steps"] == 500
    for residual in (False, True):
        network = dataclasses.replace(recipe, residual=residual).build_network(2, 1, key=KEY)
        assert network.activation is jnp.tanh
    assert Recipe().build_network(2, 1, key=KEY).activation is jax.nn.relu


def test_without_rows_to_hold_out_networks_do_without_bins():
    layout = join([of_numbers(2, optional=True), of_numbers()])
    recipe = Recipe(hidden=(4, 4))
    network = recipe.build_network(inputs_to_read(recipe, layout, 4), 2, key=KEY)
    both = ways_to_read(recipe, network, layout, can_choose=True)
    assert [reads_all(one) for one in both] == [True, False]
    (one,) = ways_to_read(recipe, network, layout, can_choose=False)
    assert one.first.on.tolist() == [True, False, False, True]
    assert [recipe.can_choose_bins(num) for num in (39, 40)] == [False, True]


@pytest.mark.parametrize("residual", [False, True])
def test_positions_of_levels_are_looked_up_where_columns_have_scales(residual):
    layout = join([of_numbers(2, optional=True), of_levels(7), of_numbers()])
    recipe = Recipe(hidden=(4, 4), residual=residual)
    assert inputs_to_read(recipe, layout, 5)[2] == [0, 0, 0, 7, 0]
    model = build_candidates(recipe, 300, 5, None, None, layout, KEY)[0].model
    assert model.example.shape == (5,)
    first = "first" if residual else "layers.0"
    for name in ("dense", "tables.0"):
        assert model.structures[f"{first}.{name}"].by == ("column", "part")
    both = ways_to_read(recipe, model.network, layout, can_choose=True)
    assert [reads_all(one) for one in both] == [True, False]
    assert both[1].first_layer.reads.tolist() == [True, False, False, True, True]


@pytest.mark.parametrize("how", [{"inference": "noise"}, {"mixture": "half-cauchy"}])
def test_other_fits_refuse_positions_of_levels(how):
    recipe = Recipe(**QUICK | how)
    assert not recipe.can_look_up
    x = np.concatenate([X[:, :1], np.arange(60.0)[:, None] % 7], axis=1)
    layout = join([of_numbers(), of_levels(7)])
    with pytest.raises(ValueError, match="Input 1 is the position of a level"):
        recipe.fit(x, Y, key=KEY, layout=layout)


@pytest.mark.filterwarnings("ignore:The chains disagree")
def test_mcmc_samples_what_is_asked_for():
    recipe = Recipe(inference="mcmc", hidden=(4,), num_members=2, max_steps=400)
    posterior = recipe.fit(X, Y, key=KEY).posterior
    assert np.corrcoef(posterior.predict(X).mean, Y)[0, 1] > 0.9


@pytest.mark.parametrize(("num_rows", "strengths"), [(30, {0.0}), (60, {0.0, 1.0})])
def test_few_rows_do_not_decide_whether_targets_go_together(num_rows, strengths):
    candidates = build_candidates(Recipe(), num_rows, 2, None, 2, None, KEY)
    assert {float(one.model.likelihood.strength) for one in candidates} == strengths
