"""Functions are the same if they do the same: built twice, or in another process."""

import functools
import itertools
import json
import os
import subprocess
import sys
import threading
import types
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalemix as sx
from scalemix.inference.digests import digest

RATE = 0.1


def step_down(rate, *, start=10):
    def schedule(step):
        return jnp.where(step < start, rate, rate / 10)

    return schedule


def looked_up(table):
    return lambda step: table[step]


def by_global(step):
    return RATE * step


def by_itself(step):
    return 1.0 if step < 1 else by_itself(step - 1)


class Schedule:
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, step):
        return self.rate * step

    def half(self, step):
        return self(step) / 2


class Pair(NamedTuple):
    one: object
    two: object


class Net(eqx.Module):
    layer: eqx.nn.Linear
    act: object

    def __init__(self, key=0, act=jax.nn.relu):
        self.layer, self.act = eqx.nn.Linear(3, 1, key=jax.random.key(key)), act

    def __call__(self, x):
        return self.act(self.layer(x))


class OtherNet(Net):
    def __call__(self, x):
        return self.act(self.layer(x)) + 1


# Builders of things all of which differ, while each gives the same when it is called again.
THINGS = {
    "adam": lambda: optax.adam(1e-3),
    "another rate": lambda: optax.adam(1e-2),
    "another constant": lambda: optax.adam(1e-3, b1=0.8),
    "adamw": lambda: optax.adamw(1e-3),
    "sgd": lambda: optax.sgd(1e-3),
    "a schedule inside": lambda: optax.adam(optax.exponential_decay(1e-3, 10, 0.9)),
    "another decay inside": lambda: optax.adam(optax.exponential_decay(1e-3, 10, 0.8)),
    "chained": lambda: optax.chain(optax.clip(1.0), optax.adam(1e-3)),
    "chained otherwise": lambda: optax.chain(optax.clip(2.0), optax.adam(1e-3)),
    "injected": lambda: optax.inject_hyperparams(optax.adam)(learning_rate=1e-3),
    "injected otherwise": lambda: optax.inject_hyperparams(optax.adam)(learning_rate=1e-2),
    "several steps": lambda: optax.MultiSteps(optax.adam(1e-3), 2).gradient_transformation(),
    "more steps": lambda: optax.MultiSteps(optax.adam(1e-3), 3).gradient_transformation(),
    "masked": lambda: optax.masked(optax.adam(1e-3), lambda tree: True),
    "masked otherwise": lambda: optax.masked(optax.adam(1e-3), lambda tree: False),
    "decay": lambda: optax.exponential_decay(1e-2, 10, 0.9),
    "decay, other numbers": lambda: optax.exponential_decay(1e-2, 20, 0.9),
    "pieces": lambda: optax.piecewise_constant_schedule(0.1, {5: 0.1}),
    "other pieces": lambda: optax.piecewise_constant_schedule(0.1, {6: 0.1}),
    "joined": lambda: optax.join_schedules([step_down(0.1), lambda s: 0.0], [5]),
    "joined otherwise": lambda: optax.join_schedules([step_down(0.2), lambda s: 0.0], [5]),
    "lambda": lambda: lambda step: 0.1 * step,
    "lambda, other number": lambda: lambda step: 0.2 * step,
    "lambda, other default": lambda: lambda step, rate=0.2: 0.2 * step,
    "closed over": lambda: step_down(0.1),
    "closed over, other rate": lambda: step_down(0.2),
    "closed over, other start": lambda: step_down(0.1, start=11),
    "partial": lambda: functools.partial(pow, 2),
    "another partial": lambda: functools.partial(pow, 3),
    "object": lambda: Schedule(0.1),
    "another object": lambda: Schedule(0.2),
    "bound": lambda: Schedule(0.1).half,
    "bound to another": lambda: Schedule(0.2).half,
    "jitted": lambda: jax.jit(step_down(0.1)),
    "jitted otherwise": lambda: jax.jit(step_down(0.2)),
    "array": lambda: looked_up(jnp.arange(5.0)),
    "another array": lambda: looked_up(jnp.arange(1.0, 6.0)),
    "interpolated": lambda: functools.partial(np.interp, xp=np.arange(3), fp=np.arange(3.0)),
    "global": lambda: by_global,
    "recursive": lambda: by_itself,
    "a name of jax": lambda: jax.nn.relu,
    "a ufunc": lambda: np.sin,
    "a function of jax.numpy": lambda: jnp.sin,
    "network": Net,
    "network, other weights": lambda: Net(1),
    "network, other activation": lambda: Net(act=jax.nn.tanh),
    "network, own activation": lambda: Net(act=lambda x: 2 * x),
    "network, other activation of one's own": lambda: Net(act=lambda x: 3 * x),
    "network, other code": OtherNet,
    "own mixture": lambda: sx.ARD(sx.HalfCauchy(1.0)),
    "key": lambda: jax.random.key(3),
    "tuple": lambda: Pair(1, 2.0),
    "list": lambda: [1, 2.0],
    "set": lambda: {"b", "a", 3},
    "zero": lambda: 0.0,
    "minus zero": lambda: -0.0,
    "false": lambda: False,
    "none": lambda: None,
    "float32": lambda: np.float32(0.0),
}


def all_digests():
    return {name: digest(build(), name) for name, build in THINGS.items()}


def test_the_same_built_twice_is_the_same():
    assert all_digests() == all_digests()


def test_what_differs_differs():
    digests = all_digests()
    for one, other in itertools.combinations(digests, 2):
        assert digests[one] != digests[other], (one, other)


def test_another_process_finds_the_same():
    code = "import json; from tests.inference import test_digests as t; "
    code += "print(json.dumps(t.all_digests()))"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env=environment,
    )
    assert ran.stdout.strip() == json.dumps(all_digests())


def test_globals_count_where_they_are_read(monkeypatch):
    before, other = digest(by_global, "a"), digest(by_itself, "a")
    monkeypatch.setattr(sys.modules[__name__], "RATE", 0.2)
    assert digest(by_global, "a") != before
    assert digest(by_itself, "a") == other


def test_modules_of_ones_own_count_where_they_are_read(monkeypatch):
    settings = types.ModuleType("settings_of_mine")
    settings.rate, settings.title = 0.1, "A"
    names = {"settings": settings, "__name__": "mine"}
    exec("def schedule(step): return settings.rate * step", names)
    before = digest(names["schedule"], "a")
    settings.title = "B"
    assert digest(names["schedule"], "a") == before
    settings.rate = 0.2
    assert digest(names["schedule"], "a") != before


def test_where_a_function_stands_does_not_count():
    texts = [
        "def f(step):\n    return 0.1 * step\n",
        "\n\n\ndef f(step):\n\n    return 0.1 * step\n",
    ]
    functions = []
    for i, text in enumerate(texts):
        names = {}
        exec(compile(text, f"file{i}.py", "exec"), names)
        functions.append(names["f"])
    assert digest(functions[0], "a") == digest(functions[1], "a")


def test_what_cannot_be_compared_is_said():
    lock = threading.Lock()

    def schedule(step):
        with lock:
            return 0.1

    with pytest.raises(ValueError, match=r"learning_rate holds a lock, which cannot be compared"):
        digest(schedule, "learning_rate")


class Wrapping:
    """Around a function, with a number of its own."""

    def __init__(self, function, factor):
        functools.update_wrapper(self, function)
        self.factor = factor

    def __call__(self, step):
        return self.factor * self.__wrapped__(step)


def making(rate):
    class Rate:
        def __init__(self):
            self.rate = rate

    return lambda step: Rate().rate


def disguised(rate):
    """A function of one's own that bears the name of a package's."""
    space = {"__name__": "mine", "functools": functools, "optax": optax, "RATE": rate}
    exec("@functools.wraps(optax.constant_schedule)\ndef own(step): return RATE", space)
    return space["own"]


def applied_in_turn(order):
    parts = {"double": lambda step: 2 * step, "raise": lambda step: step + 1}
    return looked_up({name: parts[name] for name in order})


def cycle(shared):
    outer: list = []
    inner = [outer] if shared else [[outer]]
    outer.extend([inner, [inner]])
    return outer


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Wrapping(by_global, 1.0), Wrapping(by_global, 50.0)),
        (making(0.1), making(0.5)),
        (disguised(0.1), disguised(0.5)),
        (applied_in_turn(["double", "raise"]), applied_in_turn(["raise", "double"])),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([1.0, 2.0], mask=[1, 0])),
        (np.array(0.1), np.array([0.1])),
        (jnp.asarray(0.1), jnp.asarray(0.1, jnp.float32)),
        (cycle(True), cycle(False)),
    ],
    ids=["wrapped", "made inside", "disguised", "order", "mask", "rank", "weak type", "cycle"],
)
def test_what_hides_a_difference_does_not_hide_it_here(one, other):
    assert digest(one, "it") != digest(other, "it")
    assert digest(one, "it") == digest(one, "it")


def test_what_a_function_imports_itself_counts(monkeypatch):
    def schedule(step):
        import settings_of_mine

        return settings_of_mine.RATE * step

    module = types.ModuleType("settings_of_mine")
    monkeypatch.setitem(sys.modules, "settings_of_mine", module)
    digests = set()
    for rate in (0.1, 0.5):
        monkeypatch.setattr(module, "RATE", rate, raising=False)
        digests.add(digest(schedule, "it"))
    assert len(digests) == 2
