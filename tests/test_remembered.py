"""What is kept beside objects: for whom, how long, and how much of it."""

import copy
import gc
import pickle
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix._remembered import Memory


class Owner:
    """Something that may be kept for."""


def kilobyte():
    return jnp.zeros(256, jnp.float32)


def test_the_same_question_is_answered_once():
    memory, owner, made = Memory(10_000), Owner(), []

    def make():
        made.append(kilobyte())
        return made[-1]

    assert memory.of(owner, "a", make) is memory.of(owner, "a", make) is made[0]
    assert memory.of(owner, "b", make) is made[1]
    # One that is as good is another.
    assert memory.of(Owner(), "a", make) is made[2]
    assert len(made) == 3


def test_what_was_not_asked_for_longest_goes_first():
    memory, owner = Memory(2500), Owner()
    for name in ("a", "b", "a", "c"):
        memory.of(owner, name, kilobyte)
        assert memory.num_bytes <= memory.most_bytes
    known = [name for name in "abc" if memory.of(owner, name, lambda: None) is not None]
    assert known == ["a", "c"]
    # What is too large by itself is given, and not kept.
    assert memory.of(owner, "large", lambda: jnp.zeros(1000)).shape == (1000,)
    assert memory.num_bytes <= 2500


def test_nothing_outlives_its_owner():
    memory, owner = Memory(10_000), Owner()
    memory.of(owner, "a", kilobyte)
    memory.of(owner, "b", kilobyte)
    assert memory.num_bytes == 2048
    del owner
    gc.collect()
    assert len(memory) == memory.num_bytes == 0


def test_owners_may_go_while_bytes_are_counted():
    memory, owners = Memory(10_000), [Owner(), Owner()]
    for owner in owners:
        memory.of(owner, "a", kilobyte)
    del owner

    class Collecting(int):
        """A number that stands for the collector, which may come between any two steps."""

        def __radd__(self, other):
            owners.clear()
            return other + int(self)

    place, first = next(iter(memory._kept.items()))
    memory._kept[place] = first._replace(num_bytes=Collecting(first.num_bytes))
    assert memory.num_bytes == 2048
    assert len(memory) == memory.num_bytes == 0


class Module(eqx.Module):
    weight: jax.Array


def test_copies_and_pickles_take_nothing_along():
    memory, module = Memory(10_000), Module(jnp.ones(3))
    before = pickle.dumps(module)
    memory.of(module, "a", kilobyte)
    assert pickle.dumps(module) == before
    assert len(jax.tree.leaves(module)) == 1
    for other in (copy.copy(module), copy.deepcopy(module), pickle.loads(before)):
        assert memory.of(other, "a", lambda: "another") == "another"


def test_a_trace_leaves_nothing_behind():
    memory, module = Memory(10_000), Module(jnp.ones(3))

    def double():
        return memory.of(module, "double", lambda: 2 * module.weight)

    np.testing.assert_array_equal(jax.jit(lambda: double() + 1)(), np.full(3, 3.0))
    np.testing.assert_array_equal(double(), np.full(3, 2.0))


def test_threads_may_ask_at_once():
    memory, owners, wrong = Memory(5000), [Owner() for _ in range(4)], []

    def ask(seed):
        rng = np.random.default_rng(seed)
        for _ in range(300):
            which, name = int(rng.integers(4)), int(rng.integers(3))
            # Some owners come and go.
            owner = owners[which] if which else Owner()
            value = memory.of(owner, name, lambda w=which, n=name: np.full(100, 10.0 * w + n))
            if (value != 10 * which + name).any():
                wrong.append((which, name))

    threads = [threading.Thread(target=ask, args=(seed,), daemon=True) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
        assert not thread.is_alive()
    assert not wrong
    assert memory.num_bytes <= 5000
