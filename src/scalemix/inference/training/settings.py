"""What all engines that train by gradient steps have in common."""

import dataclasses
from typing import Any, ClassVar, Self

import jax
import optax
from jaxtyping import PyTree

from scalemix._parameters import as_plain_numbers, is_number
from scalemix.inference.digests import SameCode, by_what_it_does


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """How long to train, on which batches, with which steps.

    Give `steps` or `epochs`; with neither it is 5,000 steps. `batch_size=None` takes all data in
    every step. The optimiser is Adam with a rate that falls from `learning_rate` to zero along a
    cosine, unless `learning_rate` is a schedule of its own or an `optimizer` is given. With
    `validation_fraction` that part of the training data is held out; the state that scores best on
    it is kept, and training stops after `patience` chunks of `chunk_steps` steps without a better
    one. `num_members` fits from different starts run side by side, and predictions mix them: the
    first starts from the network as given, the others from the same values in another order. Data
    beyond `stream_above` bytes stay in host memory and go to the device chunk by chunk.
    """

    steps: int | None = None
    epochs: float | None = None
    batch_size: int | None = 32
    learning_rate: float | optax.Schedule = 1e-2
    optimizer: optax.GradientTransformation | None = None
    validation_fraction: float = 0.0
    patience: int = 10
    chunk_steps: int = 200
    num_members: int = 1
    stream_above: int = 2 * 1024**3

    data: ClassVar[tuple[str, ...]] = ()
    """The settings in which fits of one program may differ: data, where others are part of it."""

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
        """The settings that are data, and the others by name: an engine is a pytree of these."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        functions = {
            name: by_what_it_does(value)
            for name, value in given.items()
            if callable(value) or (name == "optimizer" and value is not None)
        }
        children = tuple(None if name in functions else given[name] for name in self.data)
        plain = {name: value for name, value in given.items() if name not in self.data}
        return children, tuple((plain | functions).items())

    @classmethod
    def tree_unflatten(cls, settings: tuple[tuple[str, Any], ...], children: Any) -> Self:
        """An engine of settings that need no check, since JAX puts tracers there."""
        values = {n: v.function if isinstance(v, SameCode) else v for n, v in settings}
        for name, child in zip(cls.data, children, strict=True):
            values.setdefault(name, child)
        new = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(new, name, value)
        return new

    def check(self) -> None:
        """Raise `ValueError` for what cannot be."""
        as_plain_numbers(self)
        if self.steps is not None and self.epochs is not None:
            raise ValueError("Give steps or epochs, not both.")
        for name in ("steps", "batch_size", "chunk_steps", "patience", "num_members"):
            value = getattr(self, name)
            missing = value is None and name in ("steps", "batch_size")
            if not missing and not (isinstance(value, int) and value > 0):
                raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
        for name in ("epochs", "learning_rate"):
            value = getattr(self, name)
            positive = isinstance(value, int | float) and value > 0
            if value is not None and not positive and not callable(value):
                raise ValueError(f"{name} must be a positive number, got {value!r}.")
        if not (is_number(self.validation_fraction) and 0 <= self.validation_fraction < 1):
            raise ValueError(
                f"validation_fraction must lie in [0, 1), got {self.validation_fraction!r}."
            )

    def num_steps(self, num_rows: int) -> int:
        """The number of steps for so many rows of data; 5,000 where neither is given."""
        if self.epochs is not None:
            return max(
                1, round(self.epochs * num_rows / min(self.batch_size or num_rows, num_rows))
            )
        return 5_000 if self.steps is None else self.steps

    def descend(
        self, learned: PyTree, state: PyTree, slope: PyTree, num_steps: int
    ) -> tuple[PyTree, PyTree]:
        """What is learned, and the optimiser's state, one step further."""
        # Optax counts steps in integers and multiplies floats by them.
        with jax.numpy_dtype_promotion("standard"):
            updates, state = self.build_optimizer(num_steps).update(slope, state, learned)
            return optax.apply_updates(learned, updates), state

    def build_optimizer(self, num_steps: int) -> optax.GradientTransformation:
        """The optimiser for a run of this length."""
        if self.optimizer is not None:
            return self.optimizer
        rate = self.learning_rate
        return optax.adam(rate if callable(rate) else optax.cosine_decay_schedule(rate, num_steps))
