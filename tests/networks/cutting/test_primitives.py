"""Every primitive that has a rule: what it says of zeros, of what varies, and of what may go."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from scalemix.networks.cutting.graph import Trace
from scalemix.networks.cutting.member import take
from scalemix.networks.cutting.primitives import PRIMITIVES
from scalemix.networks.cutting.running import resized, run_graph
from scalemix.networks.cutting.solve import find_flows, solve

UNITS = 6


def small(h):
    return 0.4 * jnp.tanh(h)


def large(h):
    return 1.5 + jnp.square(h)


def whole(h):
    return h.astype(jnp.int32)


def real(values):
    return values.astype(jnp.float32)


def on(function, prepare):
    return lambda h: function(prepare(h))


def image(h):
    """Channels, places."""
    return jnp.outer(h, jnp.arange(1.0, 5.0))


SMALL = (
    "neg", "tanh", "sin", "tan", "asin", "atan", "sinh", "asinh", "atanh", "cbrt", "abs", "sign",
    "square", "erf", "expm1", "log1p", "round", "floor", "ceil", "exp", "exp2", "cos", "acos",
    "cosh", "erfc", "erf_inv", "logistic", "stop_gradient",
)  # fmt: skip
LARGE = ["log", "rsqrt", "acosh", "lgamma", "digamma", "sqrt"]

CASES = {
    **{name: on(getattr(lax, name), small) for name in SMALL},
    **{name: on(getattr(lax, name), large) for name in LARGE},
    "convert_element_type": lambda h: real(whole(h)),
    "copy": lambda h: jnp.array(h, copy=True),
    "device_put": lambda h: jax.device_put(h),
    "reduce_precision": lambda h: lax.reduce_precision(h, 6, 10),
    "optimization_barrier": lambda h: lax.optimization_barrier(h),
    "is_finite": lambda h: real(jnp.isfinite(h)),
    "not": lambda h: real(~(h > 0)),
    "add": lambda h: h + small(h),
    "sub": lambda h: h - small(h),
    "max": lambda h: jnp.maximum(h, 0.0),
    "min": lambda h: jnp.minimum(h, 0.5),
    "or": lambda h: real((h > 0) | (h < -1)),
    "xor": lambda h: real((h > 0) ^ (h < 1)),
    "and": lambda h: real((h > 0) & (h < 1)),
    "mul": lambda h: h * small(h),
    "div": lambda h: h / large(h),
    "pow": lambda h: large(h) ** small(h),
    "rem": lambda h: lax.rem(h, large(h)),
    "atan2": lambda h: jnp.arctan2(h, large(h)),
    "eq": lambda h: real(whole(h) == 0),
    "ne": lambda h: real(whole(h) != 0),
    "lt": lambda h: real(h < 0.1),
    "le": lambda h: real(h <= 0.1),
    "gt": lambda h: real(h > 0.1),
    "ge": lambda h: real(h >= 0.1),
    "nextafter": lambda h: lax.nextafter(h, large(h)),
    "clamp": lambda h: lax.clamp(-0.3, h, 0.3),
    "shift_left": lambda h: real(lax.shift_left(whole(h), whole(large(h)))),
    "shift_right_logical": lambda h: real(lax.shift_right_logical(whole(h), whole(large(h)))),
    "shift_right_arithmetic": lambda h: real(lax.shift_right_arithmetic(whole(h), whole(large(h)))),
    "integer_pow": lambda h: h**3 + large(h) ** -2,
    "select_n": lambda h: jnp.where(h > 0, h, small(h)),
    "transpose": lambda h: image(h).T,
    "broadcast_in_dim": lambda h: jnp.broadcast_to(h[None, :, None], (2, UNITS, 3)),
    "squeeze": lambda h: jnp.squeeze(lax.slice(image(h), (0, 1), (UNITS, 2)), 1),
    "rev": lambda h: h[::-1],
    "reshape": lambda h: image(h).reshape(3, 2, 2, 2).reshape(3, 8),
    "iota": lambda h: h * real(lax.broadcasted_iota(jnp.int32, (UNITS, 2), 1)).sum(1),
    "concatenate": lambda h: jnp.concatenate([h, small(h), jnp.ones(2)]),
    "split": lambda h: jnp.split(h, 2)[1],
    "slice": lambda h: h[1:5],
    "pad": lambda h: jnp.pad(image(h), ((0, 0), (1, 2))),
    "gather": lambda h: image(h)[:, jnp.array([2, 0])] + image(h)[:, whole(h[:1]) % 4],
    "dynamic_slice": lambda h: lax.dynamic_slice(image(h), (0, whole(h[0])), (UNITS, 2)),
    "dynamic_update_slice": lambda h: lax.dynamic_update_slice(
        image(h), small(image(h)[:, :2]), (0, 1)
    ),
    "dot_general": lambda h: jnp.einsum("cs,cd->sd", image(h), jnp.ones((UNITS, 2))),
    "conv_general_dilated": lambda h: lax.conv_general_dilated(
        image(h)[None], jnp.ones((UNITS, 2, 2)), (1,), "SAME", feature_group_count=3
    ),
    "reduce_sum": lambda h: image(h).sum(1),
    "reduce_max": lambda h: image(h).max(1),
    "reduce_min": lambda h: image(h).min(0),
    "reduce_prod": lambda h: image(h).prod(1),
    "reduce_or": lambda h: real(jnp.any(image(h) > 0, axis=1)),
    "reduce_and": lambda h: real(jnp.all(image(h) > 0, axis=1)),
    "argmax": lambda h: real(jnp.argmax(image(h), axis=1)),
    "argmin": lambda h: real(jnp.argmin(image(h), axis=1)),
    "reduce_window_max": lambda h: lax.reduce_window(
        image(h), -jnp.inf, lax.max, (1, 2), (1, 2), "VALID"
    ),
    "reduce_window_min": lambda h: lax.reduce_window(
        image(h), jnp.inf, lax.min, (1, 2), (1, 1), "VALID"
    ),
    "reduce_window_sum": lambda h: lax.reduce_window(
        image(h), 0.0, lax.add, (1, 3), (1, 1), "SAME"
    ),
    "cumsum": lambda h: jnp.cumsum(image(h), axis=1),
    "cumprod": lambda h: jnp.cumprod(image(h), axis=1),
    "cummax": lambda h: lax.cummax(image(h), axis=1),
    "cummin": lambda h: lax.cummin(image(h), axis=1),
    "cumlogsumexp": lambda h: lax.cumlogsumexp(image(h), axis=1),
    "sort": lambda h: jnp.sort(image(h), axis=1),
    "scan": lambda h: lax.scan(lambda c, t: (small(c + t), c), h, image(h).T)[1],
    "cond": lambda h: lax.cond(h[0] > 0, small, lambda h: 2 * h, h),
}  # fmt: skip


def test_every_rule_has_a_case():
    assert set(CASES) == set(PRIMITIVES)


@pytest.mark.parametrize("name", CASES)
def test_a_rule(name):
    rng = np.random.default_rng(0)
    use = CASES[name]
    size = jax.eval_shape(use, jnp.ones(UNITS)).size

    def call(arrays, x):
        first, bias, last = arrays
        return last @ use(first @ x + bias).reshape(-1)

    x, other = (jax.device_put(rng.normal(size=3).astype(np.float32)) for _ in range(2))
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in ((UNITS, 3), UNITS, (2, size))]
    # The first units get nothing, and one of them no bias either; about half of what comes of
    # units is not read.
    arrays[0][:2] = arrays[1][0] = 0
    arrays[2][:, rng.random(size) < 0.5] = 0
    arrays[2][:, : size // 3] = 0
    arrays = [jax.device_put(array) for array in arrays]
    trace = Trace(call, arrays, x)
    assert name in {node.name for node in trace.graph.walk()}
    flows = find_flows(trace, [np.asarray(array) != 0 for array in arrays])
    keep = solve(trace, flows)
    cut = [take(a, keep.masks(number)) for a, number in zip(arrays, trace.leaves, strict=True)]

    @jax.jit
    def run(x):
        whole = run_graph(trace, trace.graph, [*arrays, x])
        return whole, run_graph(trace, trace.graph, [*cut, x], lambda node: resized(keep, node))

    (values, small_values), (others, _) = run(x), run(other)
    for node in trace.graph.nodes:
        for number in node.outputs:
            value = np.asarray(values[number])
            flow = flows[number]
            assert not (value != 0)[~flow.nonzero].any(), f"{node.name} is not zero"
            assert not (value != np.asarray(others[number]))[~flow.varies].any(), node.name
    (output,) = trace.graph.outputs
    np.testing.assert_allclose(small_values[output], values[output], rtol=1e-5, atol=1e-5)
    for number, value in small_values.items():
        assert value.shape == keep.shape(number)


@pytest.mark.parametrize(
    ("name", "left"),
    [("tanh", 4), ("transpose", 4), ("slice", 4), ("reduce_window_max", 4), ("scan", 4)],
)
def test_what_nothing_reads_goes(name, left):
    """Of six units the first two are not read."""
    rng = np.random.default_rng(0)
    use = CASES[name]
    shape = jax.eval_shape(use, jnp.ones(UNITS)).shape

    def call(arrays, x):
        first, last = arrays
        return jnp.tensordot(last, use(first @ x), len(shape))

    last = rng.normal(size=shape)
    units = {"transpose": 1, "scan": 1}.get(name, 0)
    gone = 1 if name == "slice" else 2
    np.moveaxis(last, units, 0)[:gone] = 0
    arrays = [jnp.asarray(a, jnp.float32) for a in (rng.normal(size=(UNITS, 3)), last)]
    trace = Trace(call, arrays, jnp.ones(3))
    keep = solve(trace, find_flows(trace, [np.asarray(array) != 0 for array in arrays]))
    assert keep.shape(trace.leaves[0]) == (left - (name == "slice"), 3)
