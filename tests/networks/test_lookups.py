"""Numbers of tokens are held against the tables that they are looked up in."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

import scalemix as sx
from scalemix.data.checks import check_inputs
from scalemix.networks import LevelTable
from scalemix.networks.lookups import find_lookups
from scalemix.networks.readers import rows_read
from scalemix.networks.sites import find_sites

SIZES = {"words": 5, "kind": 7, "shifted": 9, "filled": 11, "nearest": 13, "steps": 3}


class Reader(eqx.Module):
    """Whole numbers, looked up in every way there is."""

    tables: dict[str, eqx.nn.Embedding]

    def __init__(self):
        self.tables = {
            name: eqx.nn.Embedding(num, 2, key=jax.random.key(num)) for name, num in SIZES.items()
        }

    def __call__(self, x):
        table = self.tables
        words = jax.vmap(table["words"])(x[:3]).sum(axis=0)
        kind, shifted = table["kind"](x[3]), table["shifted"](x[2] + 1)
        filled = jnp.take(table["filled"].weight, x[::2], axis=0).sum(axis=0)
        nearest = jnp.argmax(table["nearest"].weight @ words)
        turned, _ = jax.lax.scan(lambda h, t: (h + table["steps"](t), None), words, x)
        return jnp.sum(kind + shifted + filled + table["nearest"](nearest) + turned)


def test_tables_are_found_with_what_is_looked_up_in_them():
    network = Reader()
    by_table = {
        each.site.removeprefix("tables."): (each.num_tokens, sorted(each.places[0].tolist()))
        for each in find_lookups(
            network, find_sites(network), jax.ShapeDtypeStruct((5,), jnp.int32)
        )
    }
    # Not those of numbers that the network computes, nor those in a loop.
    assert by_table == {
        "words": (5, [0, 1, 2]), "kind": (7, [3]), "shifted": (9, []), "filled": (11, [0, 2, 4]),
    }  # fmt: skip
    dense = eqx.nn.MLP(3, 1, 2, 1, key=jax.random.key(0))
    assert find_lookups(dense, find_sites(dense), jax.ShapeDtypeStruct((3,), jnp.int32)) == []


def test_a_number_beyond_its_table_is_an_error_that_says_where():
    prior, x = sx.ARD(sx.HalfCauchy(1.0)), np.ones((4, 5), np.int32)
    model = sx.Model(Reader(), prior, sx.likelihoods.Gaussian(), example=x[0])
    x[1] = 4, 4, 4, 6, 10
    np.testing.assert_array_equal(check_inputs(x, model), x)
    for place, value in ((1, 5), (3, 7), (3, -1), (4, 11)):
        wrong = x.copy()
        wrong[2, place] = value
        with pytest.raises(ValueError, match=rf"x is {value} at row 2, column {place}, and is loo"):
            check_inputs(wrong, model)


def test_a_network_that_guards_its_tokens_itself_takes_any():
    table = eqx.nn.Embedding(5, 3, key=jax.random.key(0))

    def call(table, x):
        return jnp.sum(jax.vmap(table)(jax.lax.select(x < 5, x, jnp.zeros_like(x))))

    x = np.array([[4, 30], [0, 5]])
    model = sx.Model(
        table, sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian(), call=call, example=x[0]
    )
    np.testing.assert_array_equal(check_inputs(x, model), x)


def test_one_of_several_inputs_is_looked_up():
    layers = {"words": eqx.nn.Embedding(5, 3, key=jax.random.key(0))}

    def call(layers, x):
        return jnp.sum(layers["words"](x["word"]) * x["table"])

    example = {"table": jnp.ones(3), "word": jnp.int32(1)}
    model = sx.Model(
        layers, sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian(), call=call, example=example
    )
    with pytest.raises(ValueError, match=r"x\['word'\] is 5 at row 1, .* tokens 0 to 4"):
        check_inputs({"table": np.ones((2, 3)), "word": np.array([4, 5])}, model)


class Placed(eqx.Module):
    """Words with learned positions, and attention, whose dropout has the rate zero."""

    words: eqx.nn.Embedding
    positions: jax.Array
    mixer: eqx.nn.MultiheadAttention

    def __init__(self):
        self.words = eqx.nn.Embedding(5, 2, key=jax.random.key(0))
        self.positions = jnp.zeros((4, 2))
        self.mixer = eqx.nn.MultiheadAttention(1, 2, key=jax.random.key(1))

    def __call__(self, x):
        h = jax.vmap(self.words)(x) + self.positions
        return self.mixer(h, h, h).sum()


def test_a_sequence_of_another_length_is_refused_for_its_length():
    model = sx.Model(Placed(), sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian())
    with pytest.raises(ValueError, match=r"It says: add got incompatible shapes.*\(3, 2\), \(4, 2"):
        check_inputs(np.zeros((6, 3), np.int32), model)
    with pytest.raises(ValueError, match="It says: Indexer must have integer"):
        check_inputs(np.zeros((6, 4)), model)


@jax.custom_jvp
def _with_a_rule(x):
    return x[0]


_with_a_rule.defjvp(lambda given, along: (given[0][0], along[0][0]))

WAYS = {
    "split": lambda x: jnp.split(x, [1])[0][0],
    "unstack": lambda x: jnp.unstack(x)[0],
    "reversed": lambda x: x[::-1][2],
    "flip": lambda x: jnp.flip(x)[2],
    "roll": lambda x: jnp.roll(x, 1)[1],
    "stop_gradient": lambda x: jax.lax.stop_gradient(x[0]),
    "tile": lambda x: jnp.tile(x, 2)[3],
    "repeat": lambda x: jnp.repeat(x, 2)[1],
    "stack": lambda x: jnp.stack([x[1], x[0]])[1],
    "pad": lambda x: jnp.pad(x, 1)[1],
    "set": lambda x: x.at[2].set(x[0])[2],
    "update": lambda x: jax.lax.dynamic_update_slice(x, x[:1], (1,))[1],
    "diagonal": lambda x: jnp.diag(x)[0, 0],
    "take": lambda x: jnp.take(x, 0),
    "where": lambda x: jnp.where(jnp.arange(3) < 1, x, 0)[0],
    "barrier": lambda x: jax.lax.optimization_barrier(x)[0],
    "name": lambda x: checkpoint_name(x, "positions")[0],
    "device": lambda x: jax.device_put(x, jax.devices()[0])[0],
    "jit": lambda x: jax.jit(lambda x: x[0])(x),
    "checkpoint": lambda x: jax.checkpoint(lambda x: x[::-1])(x)[2],
    "custom_jvp": _with_a_rule,
}


def places_looked_up(take, dtype):
    tables = (LevelTable(4, 2, key=jax.random.key(0)),)
    network = sx.networks.with_call(tables, lambda tables, x: tables[0](take(x)))
    lookups = find_lookups(network, find_sites(network), jax.ShapeDtypeStruct((3,), dtype))
    return [places for each in lookups for places in each.places[0].tolist()]


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.float32])
@pytest.mark.parametrize("way", WAYS)
def test_what_only_moves_numbers_hides_no_lookup(way, dtype):
    assert places_looked_up(WAYS[way], dtype) == [0]


@pytest.mark.parametrize("rounding", [jnp.round, jnp.rint, jnp.floor, jnp.ceil])
def test_rounding_first_hides_no_lookup(rounding):
    assert places_looked_up(lambda x: rounding(x[0]), jnp.float32) == [0]
    # What is computed is no number of the input.
    assert places_looked_up(lambda x: rounding(x[0] / 2), jnp.float32) == []


def test_a_dense_layer_that_reads_rounded_numbers_does_not_read_the_input_as_it_is():
    layers = (eqx.nn.Linear(3, 2, key=jax.random.key(0)),)
    network = sx.networks.with_call(layers, lambda layers, x: layers[0](jnp.round(x)))
    example = jax.ShapeDtypeStruct((3,), jnp.float32)
    assert rows_read(network, find_sites(network), example) == {}
