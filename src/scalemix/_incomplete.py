"""Incomplete beta and gamma functions, quick and exact in float32 at large arguments.

Those of JAX take logarithms of gamma functions apart, whose digits are lost in float32 where they
are large, and their continued fraction of the beta function goes on until nothing changes at all,
which in float32 it seldom reaches: two hundred steps in place of twenty.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.scipy.special import erfc, gammaln
from jaxtyping import Array

# More steps than a continued fraction takes; their number grows as the root of the arguments.
MOST_STEPS = 5000
# From this shape on, the uniform expansion has all digits of single precision.
LEAST_EXPANDED = 200.0
NUM_COEFFICIENTS = 16


@jax.custom_jvp
def betainc(a: Array, b: Array, x: Array, y: Array) -> Array:
    """The regularized incomplete beta function `I_x(a, b)`, given `y = 1 - x` with its own digits.

    It may be differentiated by `x` strictly between 0 and 1, where `y` is its complement: that is
    what gradients of distribution functions need, and shapes are never learned through them.
    """
    a, b, x, y = jnp.broadcast_arrays(a, b, x, y)
    # On the other side of the mean the fraction converges slowly, and the result is the rest to
    # one. Which side it is has to be told by both: one of them may have rounded to one.
    is_far = x * (b + 1) > y * (a + 1)
    a, b = jnp.where(is_far, b, a), jnp.where(is_far, a, b)
    x, y = jnp.where(is_far, y, x), jnp.where(is_far, x, y)
    # Rounding could make it more than one.
    below = jnp.clip(jnp.exp(_log_front(a, b, x, y)) / a * _fraction(a, b, x, y), 0.0, 1.0)
    return jnp.where(is_far, 1 - below, below)


def _betainc_jvp(primals: tuple[Array, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    a, b, x, y = primals
    value = betainc(a, b, x, y)
    if not all(isinstance(tangent, SymbolicZero) for tangent in tangents[:2]):
        raise NotImplementedError("betainc has no derivative by a and b.")
    if isinstance(tangents[2], SymbolicZero):
        return value, jnp.zeros_like(value)
    # A product of two powers, of which the logarithm is that of the front over x and y.
    density = jnp.exp(_log_front(a, b, x, y) - jnp.log(x) - jnp.log(y))
    return value, density * tangents[2]


betainc.defjvp(_betainc_jvp, symbolic_zeros=True)


def _log_front(a: Array, b: Array, x: Array, y: Array) -> Array:
    """`log(x^a y^b / B(a, b))`, as terms none of which is larger than the result has to be.

    With `d = x b - y a`, which is zero where the power is largest, it is

        a f(d / a) + b f(-d / b) + log(a b / (2 pi (a + b))) / 2 - s(a) - s(b) + s(a + b)

    where `f(z) = log(1 + z) - z`, and `s` is what Stirling's formula leaves of a log-gamma.
    """
    away = x * b - y * a
    powers = a * _rest(away / a, x * (1 + b / a)) + b * _rest(-away / b, y * (1 + a / b))
    # As a product of ratios, for that of large numbers may overflow.
    scale = 0.5 * (jnp.log(a) + jnp.log(b / (a + b)) - math.log(2 * math.pi))
    return powers + scale - _stirling_rest(a) - _stirling_rest(b) + _stirling_rest(a + b)


def _fraction(a: Array, b: Array, x: Array, y: Array) -> Array:
    """The continued fraction of DLMF 8.17.22, every second convergent, by Lentz's method.

    With `l = a y - b x` that is `1 / (q_0 + p_1 / (q_1 + p_2 / (q_2 + ...)))`, where

        p_n = (a + n - 1) (a + b + n - 1) n (b - n) x^2 / (a + 2 n - 1)^2    (for n = 1, over a)
        q_n = n + n (b - n) x / (a + 2 n - 1) + (a + n) (l + 1 + n (1 + y)) / (a + 2 n + 1)

    and `q_0` is over a, too (Didonato and Morris 1992). Nothing in it is a small difference of
    large numbers, as `1 - x` would be.
    """
    eps = jnp.finfo(x.dtype).eps
    tiny = jnp.finfo(x.dtype).tiny
    from_mean = 1 + (a * y - b * x)

    def away_from_zero(value: Array) -> Array:
        return jnp.where(jnp.abs(value) < tiny, tiny, value)

    def goes_on(state: Any) -> Array:
        return jnp.any(state[1]) & (state[0] < MOST_STEPS)

    def step(state: Any) -> Any:
        num, active, before = state
        c, d, value = before
        n = num.astype(x.dtype)
        # Ratios first: a product of two large numbers may overflow.
        slope = n * ((b - n) * x / (a + 2 * n - 1))
        lead = jnp.where(num == 1, 1.0, a + n - 1) / (a + 2 * n - 1)
        p = lead * ((a + b + n - 1) * x) * slope
        q = n + slope + (a + n) / (a + 2 * n + 1) * (from_mean + n * (1 + y))
        d = 1 / away_from_zero(q + p * d)
        c = away_from_zero(q + p / c)
        changed = jnp.abs(c * d - 1) > 2 * eps
        # What has arrived stays as it is, whatever stands beside it.
        after = c, d, value / (c * d)
        kept = [jnp.where(active, new, old) for new, old in zip(after, before, strict=True)]
        return num + 1, active & changed, tuple(kept)

    first = away_from_zero(from_mean / (a + 1))
    state = first, jnp.zeros_like(x), 1 / first
    start = jnp.ones((), jnp.int32), jnp.ones(x.shape, bool), state
    return jax.lax.while_loop(goes_on, step, start)[2][2]


def gammainc(a: Array, x: Array) -> Array:
    """The regularized lower incomplete gamma function."""
    return _by_size(jax.scipy.special.gammainc, -1, a, x)


def gammaincc(a: Array, x: Array) -> Array:
    """The regularized upper incomplete gamma function."""
    return _by_size(jax.scipy.special.gammaincc, 1, a, x)


def _by_size(plain: Any, side: int, a: Array, x: Array) -> Array:
    a, x = jnp.broadcast_arrays(a, x)
    if a.dtype != jnp.float32:
        return plain(a, x)
    is_large = a > LEAST_EXPANDED
    small = plain(jnp.where(is_large, 1.0, a), jnp.where(is_large, 1.0, x))
    safe = jnp.where(is_large, a, LEAST_EXPANDED), jnp.where(is_large, x, LEAST_EXPANDED)
    return jnp.where(is_large, _expanded(side, *safe), small)


def _expanded(side: int, a: Array, x: Array) -> Array:
    """Temme's uniform expansion for large `a` (DLMF 8.12): `side` is 1 for the upper function."""
    # (x - a) is exact where they are near each other. Far out all ends are alike, and infinite ones
    # would not be numbers.
    z = jnp.clip((x - a) / a, -1 + 1e-6, 1e6)
    # -2 (log(1 + z) - z) / z^2, whose root has a slope where z is zero.
    is_near = jnp.abs(z) < 1e-2
    safe = jnp.where(is_near, 1.0, z)
    near_one = jnp.polyval(jnp.asarray([1 / 3, -2 / 5, 1 / 2, -2 / 3, 1.0], a.dtype), z)
    eta = z * jnp.sqrt(jnp.where(is_near, near_one, -2 * log1p_rest(safe) / safe**2))
    # Further out there is nothing left that single precision could hold.
    near = jnp.clip(eta, -1.0, 1.0)
    series = jnp.zeros_like(a)
    for coefficients in reversed(COEFFICIENTS):
        series = series / a + jnp.polyval(jnp.asarray(coefficients[::-1], a.dtype), near)
    rest = jnp.exp(-0.5 * a * eta**2) / jnp.sqrt(2 * math.pi * a) * series
    return jnp.clip(0.5 * erfc(side * eta * jnp.sqrt(0.5 * a)) + side * rest, 0.0, 1.0)


def _find_coefficients() -> list[list[float]]:
    """Those of DLMF 8.12.9 to 8.12.12, for three powers of `1 / a`."""
    num = NUM_COEFFICIENTS + 8
    alpha = [0.0, 1.0]
    for n in range(2, num):
        products = sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))
        alpha.append((alpha[n - 1] - products) / (n + 1))
    first = [-1 / 3, *((n + 2) * alpha[n + 2] for n in range(1, num - 2))]
    rows = [first]
    # The coefficients of Stirling's series, with alternating signs.
    for g in (-1 / 12, 1 / 288):
        last = rows[-1]
        rows.append([g * first[n] + (n + 2) * last[n + 2] for n in range(len(last) - 2)])
    return [row[:NUM_COEFFICIENTS] for row in rows]


COEFFICIENTS = _find_coefficients()


def log1p_rest(z: Array) -> Array:
    """`log(1 + z) - z` with all its digits."""
    return _rest(z, 1 + z)


def _rest(z: Array, one_more: Array) -> Array:
    """The same, given `1 + z` with the digits that it has where `z` is near -1."""
    near = jnp.where(jnp.abs(z) < 0.5, z, 0.0)
    # log(1 + z) = 2 artanh(r) with r = z / (2 + z), and 2 r - z = -z r.
    r = near / (2 + near)
    num = 8 if z.dtype == jnp.float32 else 17
    powers = jnp.asarray([1 / (2 * k + 1) for k in range(num, 0, -1)], z.dtype)
    series = -near * r + 2 * r**3 * jnp.polyval(powers, r * r)
    return jnp.where(jnp.abs(z) < 0.5, series, jnp.log(one_more) - z)


def _stirling_rest(z: Array) -> Array:
    """`log Gamma(z) - ((z - 1/2) log z - z + log(2 pi) / 2)` for z > 0."""
    # Below eight all terms are small, and few digits are lost; above, the series has all of them.
    far = jnp.maximum(z, 8.0)
    r = 1 / far**2
    series = (1 / 12 + r * (-1 / 360 + r * (1 / 1260 + r * (-1 / 1680 + r / 1188)))) / far
    near = jnp.minimum(z, 8.0)
    plain = gammaln(near) - (near - 0.5) * jnp.log(near) + near - 0.5 * math.log(2 * math.pi)
    return jnp.where(z > 8, series, plain)
