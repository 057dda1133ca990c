"""Compression on MNIST, tried on generated images."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import scalemix as sx
from scalemix.cli.app import app
from scalemix.reproduce.compression import PLANS, Course, Plan, Teaching
from scalemix.reproduce.compression.images import read_images
from scalemix.reproduce.compression.networks import (
    LENET_300,
    BandConv,
    LeNet5,
    LeNet300,
    PatchConv,
    with_convolutions,
)
from scalemix.reproduce.compression.plans import HE
from scalemix.reproduce.compression.published import PUBLISHED
from scalemix.reproduce.compression.refit import refit
from scalemix.reproduce.compression.scores import error
from scalemix.reproduce.compression.shrink import shrunk
from scalemix.reproduce.compression.small import read_small
from scalemix.reproduce.compression.teaching import Softened, ask

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
# Few rows are on at the end of so short a fit unless the prior counts for little.
NOISE = {"dense1": 0.5, "dense2": 0.05, "dense3": 0.05}
COURSE = Course(
    {0.001: 150_000}, 30, 10, 0.3, HE, NOISE, 16, decay=0.03, rounds=2, round_steps=5,
    teachers=LENET_300,
)  # fmt: skip
TEACHING = {LENET_300: Teaching(NOISE, 20, num=2, batch_size=16)}
PLAN = Plan("quick", {LENET_300: COURSE}, num_seeds=1, teaching=TEACHING, num_draws=2)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A file of images in which the column of the brightest stripe says the digit."""
    file = tmp_path_factory.mktemp("images") / "mnist.npz"
    arrays = {}
    for part, num in (("train", 200), ("test", 50)):
        y = RNG.integers(10, size=num)
        x = RNG.integers(60, size=(num, 28, 28))
        x[np.arange(num), :, 4 + 2 * y] = 255
        arrays |= {f"x_{part}": x.astype(np.uint8), f"y_{part}": y.astype(np.uint8)}
    np.savez(file, **arrays)
    return file


@pytest.fixture(scope="module")
def done(images, tmp_path_factory):
    """The folder of a run by the command line, and what the command said."""
    folder = tmp_path_factory.mktemp("compression")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PLANS, "quick", PLAN)
        arguments = ["compression", "--quick", "--images", str(images), "-o", str(folder)]
        shown = CliRunner().invoke(app, ["reproduce", *arguments])
    return folder, shown


@pytest.mark.parametrize("kind", [PatchConv, BandConv])
def test_a_convolution_by_products_is_a_convolution(kind):
    conv = eqx.nn.Conv2d(3, 4, 5, key=KEY)
    x = jax.random.normal(KEY, (3, 9, 8))
    np.testing.assert_allclose(kind(3, 4, 5, key=KEY)(x), conv(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "room"), [(LeNet300, (290, 95)), (LeNet5, (19, 48, 460))])
def test_a_narrowed_network_is_the_masked_one(kind, room):
    network = kind(key=KEY)
    rows = {site: RNG.random(num) < 0.6 for site, num in kind.num_rows.items()}
    # Whole channels of which nothing is read.
    if kind is LeNet5:
        rows["dense1"][: 5 * 16] = False
    model = sx.Model(network, sx.ARD(sx.LogUniform()), sx.likelihoods.Categorical(10))
    weights = {
        site: weight * np.float32(rows[site]).reshape(1, -1, *[1] * (weight.ndim - 2))
        if site in rows
        else weight
        for site, weight in model.weights.items()
    }
    masked = model.with_weights(weights).network
    x = jnp.asarray(RNG.random((4, 28, 28), np.float32))
    # As one program, where each operation would be one of its own.
    run = eqx.filter_jit(lambda network: jax.vmap(network)(x))
    wanted = run(masked)
    small, wide = network.narrowed(rows), network.narrowed(rows, room)
    by_bands = with_convolutions(wide, BandConv)
    for other in (small, wide, by_bands, wide.narrowed(wide.rows_in_use())):
        np.testing.assert_allclose(run(other), wanted, rtol=1e-4, atol=1e-5)
    counts = kind.count(rows)
    assert counts.weights == sum(getattr(small, site).weight.size for site in small.sites)
    with pytest.raises(ValueError, match="There is room for"):
        network.narrowed(rows, [2] * len(room))


def test_weights_are_counted_as_in_the_literature():
    weights = {(point.method, point.network): point.weights for point in PUBLISHED}
    assert weights["group horseshoe", "LeNet-5-Caffe"] == 2751
    assert weights["group normal-Jeffreys", "LeNet-5-Caffe"] == 4074
    assert weights["VIB", LENET_300] == 9560


def test_multiply_adds_are_those_that_the_compiler_counts():
    """Of LeNet-5 as a whole; products alone, of which a multiplication and a sum count as two."""
    whole = {site: np.ones(num, bool) for site, num in LeNet5.num_rows.items()}
    traced = jax.make_jaxpr(LeNet5(key=KEY))(jnp.zeros((28, 28)))
    products = [eqn for eqn in traced.jaxpr.eqns if eqn.primitive.name == "dot_general"]
    work = 0
    for eqn in products:
        left, right = (atom.aval.shape for atom in eqn.invars)
        (summed, _), _ = eqn.params["dimension_numbers"]
        work += np.prod(left) * np.prod(right) // np.prod([left[axis] for axis in summed])
    assert work == LeNet5.count(whole).multiply_adds


def test_the_command_selects_refits_and_keeps_small_networks(done, images):
    folder, shown = done
    assert shown.exit_code == 0, shown.output
    assert "VIB" in shown.stdout
    content = json.loads((folder / "compression.json").read_text())
    (fit,) = content["networks"][LENET_300]["fits"]
    assert fit["weights"] <= 150_000 < fit["weights_as_found"]
    (network, rows), *_ = read_small(folder / "compression.npz")[LENET_300].values()
    assert "-".join(str(int(on.sum())) for on in rows.values()) == fit["shape"]
    assert sum(getattr(network, site).weight.size for site in network.sites) == fit["weights"]
    assert error(network, read_images(images)) == fit["refit"]
    # Guessing errs by ninety percent.
    assert max(content["teachers"][LENET_300]["each"]) < 60
    pixels = content["networks"][LENET_300]["pixels"]["0.001"]
    assert [int(digit) for digit in pixels] == rows["dense1"].astype(int).tolist()
    assert (folder / "compression.png").exists()
    assert (folder / "pixels.png").exists()


def test_a_pupil_is_at_its_best_where_it_says_what_the_teacher_says():
    """By the divergence of softened classes, of which the teacher's own entropy is the rest."""
    teacher, pupil = RNG.normal(size=(2, 10)).astype(np.float32)
    softness = 2.5
    p, q = (np.exp(v / softness) / np.exp(v / softness).sum() for v in (teacher, pupil))
    likelihood = Softened(jnp.float32(softness))
    best, given = (float(likelihood.log_prob(jnp.asarray(v), teacher)) for v in (teacher, pupil))
    np.testing.assert_allclose(best - given, softness**2 * np.sum(p * np.log(p / q)), rtol=1e-4)
    slope = jax.grad(likelihood.log_prob)(jnp.asarray(teacher), teacher)
    np.testing.assert_allclose(slope, 0, atol=1e-5)
    # Divided by a large number, outputs are fitted by least squares of what differs among classes.
    soft = Softened(jnp.float32(1e3))
    slope = jax.grad(soft.log_prob)(jnp.asarray(pupil), teacher)
    apart = (teacher - teacher.mean()) - (pupil - pupil.mean())
    np.testing.assert_allclose(slope, apart / 10, atol=2e-3)


def test_decay_makes_the_weights_of_a_refit_smaller(images):
    network = LeNet300(key=KEY)
    rows = {site: RNG.random(num) < 0.1 for site, num in LeNet300.num_rows.items()}
    narrowed = network.narrowed(rows, [int(rows[f"dense{i}"].sum()) for i in (2, 3)])

    def size(decay):
        # So small a rate that nothing is learned.
        course = dataclasses.replace(COURSE, decay=decay, learning_rate=1e-6)
        (done,) = refit([narrowed], course, read_images(images), None, COURSE.refit_steps)
        return float(jnp.linalg.norm(done.dense1.weight))

    falling = 0.5 * (1 + np.cos(np.pi * np.arange(COURSE.refit_steps) / COURSE.refit_steps))
    np.testing.assert_allclose(size(5e4) / size(0.0), np.prod(1 - 0.05 * falling), rtol=1e-3)


def test_a_lesson_is_the_mean_of_what_teachers_say():
    teachers = [LeNet300(key=jax.random.key(seed)) for seed in (0, 1)]
    x = RNG.random((3, 28, 28), np.float32)
    said = np.mean([jax.vmap(network)(jnp.asarray(x)) for network in teachers], axis=0)
    wanted = said - said.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(ask(teachers, x), wanted, atol=1e-5)


def test_of_two_pixels_that_say_the_same_one_goes_and_the_other_takes_its_part():
    """Both are far from zero, and a rule that takes each by itself would keep both."""
    left = zip(LeNet300.num_rows.items(), (12, 6, 4), strict=True)
    rows = {site: np.arange(num) < some for (site, num), some in left}
    network = LeNet300(key=KEY).narrowed(rows, (6, 4))
    weight = network.dense1.weight.at[:, :2].set(1.0).at[:, 2:12].set(0.3 * RNG.random((6, 10)))
    # With such a bias no unit is off.
    network = eqx.tree_at(
        lambda n: (n.dense1.weight, n.dense2.bias), network, (weight, jnp.full(4, 3.0))
    )
    x = RNG.random((600, 28, 28), np.float32)
    x[:, 0, 1] = x[:, 0, 0]
    small = shrunk(network, x, network.count(rows).weights - 6, {}, 3.0)
    left = small.rows_in_use()
    assert left["dense1"][:2].sum() == 1
    assert small.count(left).shape == "11-6-4"
    run = eqx.filter_jit(lambda network: jax.vmap(network)(jnp.asarray(x[:20])))
    np.testing.assert_allclose(run(small), run(network), atol=2e-3)
    assert {k: on.sum() for k, on in network.within(rows, left).items()} == {
        k: on.sum() for k, on in left.items()
    }


def test_channels_go_where_they_cost_least_and_no_more_goes_than_has_to():
    rows = {"conv2": np.arange(20) < 3, "dense1": np.arange(800) < 64, "dense2": np.arange(500) < 9}
    network = LeNet5(key=KEY).narrowed(rows, (3, 4, 9))
    # Nothing of the third channel is used.
    unused = network.dense1.weight.at[:, 32:48].set(0.0)
    network = eqx.tree_at(lambda n: n.dense1.weight, network, unused)
    x = RNG.random((500, 28, 28), np.float32)
    most = network.count(rows).weights - 75 - 16 * 9
    small = shrunk(network, x, most, {"dense1": 0.2}, 1.0)
    whole = network.within(rows, small.rows_in_use())
    assert network.count(whole).weights == most
    np.testing.assert_array_equal(np.flatnonzero(~whole["dense1"][:64]), np.arange(32, 48))
    fewer = shrunk(network, x, 400, {}, 1.0)
    assert 400 - 9 - 64 < network.count(fewer.rows_in_use()).weights <= 400
    with pytest.raises(ValueError, match="No network of this kind"):
        shrunk(network, x, 10, {}, 1.0)


def test_images_that_are_not_there_or_something_else_are_refused(tmp_path, images):
    run = CliRunner().invoke
    missing = run(app, ["reproduce", "compression", "--quick", "-o", str(tmp_path)])
    assert missing.exit_code == 2
    assert "mnist.npz" in missing.stderr
    with pytest.raises(ValueError, match="There is no file"):
        read_images(tmp_path / "nothing.npz")
    (tmp_path / "text.npz").write_text("text")
    with pytest.raises(ValueError, match="cannot be read as MNIST"):
        read_images(tmp_path / "text.npz")
    np.savez(tmp_path / "small.npz", **dict.fromkeys(("x_train", "x_test"), np.zeros((3, 8, 8))),
             **dict.fromkeys(("y_train", "y_test"), np.zeros(3, int)))  # fmt: skip
    with pytest.raises(ValueError, match="has the shape"):
        read_images(tmp_path / "small.npz")
    for wrong in (["table1", "--images", str(images)], ["compression", "--as-published"]):
        assert run(app, ["reproduce", *wrong, "-o", str(tmp_path)]).exit_code == 2
