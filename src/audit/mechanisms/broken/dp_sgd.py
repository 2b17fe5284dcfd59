"""DP-SGD with a bug, one in each class; what it claims is what the honest one claims."""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError
from audit.learning import Examples
from audit.mechanisms.broken.less_noise import NoiseFraction
from audit.mechanisms.dp_sgd import DPSGD, ClippedStep, Step, Trained, gradient_sum, shrink
from audit.privacy import STRICT


@dataclass(frozen=True, config=STRICT)
class DPSGDLessNoise(DPSGD):
    """`DPSGD` with a share of the noise that the accountant asks for.

    Args:
        noise_fraction: share of the noise multiplier, > 0; less than 1 is a bug to be found.
    """

    noise_fraction: NoiseFraction = 0.5

    @property
    def added_sigma(self) -> float:
        """A share of the noise multiplier."""
        return self.sigma * self.noise_fraction


@dataclass(frozen=True, config=STRICT)
class ConstantNoise(DPSGD):
    """The same key, and so the same noise, in every step of every training."""

    def noise_key(self, key: Any, step: Any) -> Any:
        """One and the same key."""
        import jax

        return jax.random.key(0)


@dataclass(frozen=True, config=STRICT)
class ForgottenEpochs(DPSGD):
    """The accountant counts fewer epochs than there are.

    Args:
        forgotten_epochs: that it does not know of, fewer than ``epochs``.

    Raises:
        AuditError: no epoch is left to account for.
    """

    forgotten_epochs: Annotated[int, Field(ge=0)] = 1

    def __post_init__(self) -> None:
        if self.forgotten_epochs >= self.epochs:
            raise AuditError(
                f"mechanism.forgotten_epochs={self.forgotten_epochs} leaves nothing to account for;"
                " raise mechanism.epochs"
            )

    @property
    def accounted_steps(self) -> int:
        """Steps of the epochs that are not forgotten."""
        return max(1, round((self.epochs - self.forgotten_epochs) / self.rate))


@dataclass(frozen=True, config=STRICT)
class ShuffledBatches(DPSGD):
    """Every example once an epoch in batches of a fixed share, accounted for as if by coins.

    Raises:
        AuditError: an epoch is no whole number of batches.
    """

    def __post_init__(self) -> None:
        if abs(1 / self.rate - self.steps_per_epoch) > 1e-9:
            raise AuditError(
                f"mechanism.rate={self.rate:g} is no whole share of an epoch; take one such as 0.1"
                " or 0.05"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch."""
        return max(1, round(1 / self.rate))

    def draws(self, key: Any, step: Any, records: int) -> Any:
        """(records,) 1 for those of the step's batch in the epoch's random order."""
        import jax

        epoch = step // self.steps_per_epoch
        batch = step % self.steps_per_epoch
        epoch_key = jax.random.fold_in(jax.random.fold_in(key, 0), epoch)
        order = jax.random.permutation(epoch_key, records)
        return (order % self.steps_per_epoch == batch) * 1.0

    def release(self, data: Examples, trials: int, rng: np.random.Generator) -> Trained:
        """``trials`` trainings, whose exact likelihood ratio is that of shuffled batches."""
        trained = super().release(data, trials, rng)
        return ShuffledTrained(**vars(trained), steps_per_epoch=self.steps_per_epoch)


@dataclasses.dataclass(frozen=True)
class ShuffledTrained(Trained):
    """`Trained` where exactly one of the ``steps_per_epoch`` steps of an epoch draws an example."""

    steps_per_epoch: int

    def ratio(self) -> Array:
        """(n, m) ln Σ e^l/T over the T steps of an epoch, added up over the epochs."""
        steps = self.step_log_ratios()
        epochs = steps.reshape(len(steps), -1, self.steps_per_epoch, steps.shape[2])
        log_means = np.logaddexp.reduce(epochs, axis=2) - np.log(self.steps_per_epoch)
        return np.sum(log_means, axis=1)


@dataclass(frozen=True, config=STRICT)
class SumClipped(DPSGD):
    """The sum of a step's gradients is clipped in place of each gradient."""

    def clipped(self, step: Step) -> ClippedStep:
        """The step with its sum clipped to norm ``clip``."""
        import jax.numpy as jnp

        base = gradient_sum(step.theta, step.shapes, step.inputs, step.labels, step.drawn_base)
        whole = base + step.canaries.sum(step.theta, step.drawn_canaries)
        known = base * shrink(jnp.linalg.norm(base), self.clip)
        rest = whole * shrink(jnp.linalg.norm(whole), self.clip) - known + step.noise
        inner, square = _alone(step, base, known, rest, self.clip)
        return ClippedStep(known, rest, inner, square)


def _alone(step: Step, base: Any, known: Any, rest: Any, clip: float) -> tuple[Any, Any]:
    """(m,) ⟨rest, c⟩ and ‖c‖² for what each canary g alone does to a clipped sum.

    c = clip(base + g) − clip(base), from inner products only: no vector c is made.
    """
    import jax.numpy as jnp

    along = functools.partial(step.canaries.along, step.theta)
    base_norm = jnp.linalg.norm(base)
    base_along = along(base)
    # ‖base + g‖²; rounding may leave it just below zero.
    squared_length = base_norm**2 + 2 * base_along + step.canary_norm**2
    length = jnp.sqrt(jnp.maximum(squared_length, 0.0))
    factor = shrink(length, clip)
    inner = factor * (rest @ base + along(rest)) - rest @ known
    both = factor * shrink(base_norm, clip) * (base_norm**2 + base_along)
    square = (factor * length) ** 2 - 2 * both + known @ known
    return inner, jnp.maximum(square, 0.0)
