"""Training by noisy stochastic gradients (DP-SGD): many trainings at once, and what an insider sees of each canary.

A step adds up the gradients of the examples that are drawn, each clipped to norm C, and N(0, (σC)²) in every coordinate.
The insider knows the base examples, and which of them each step drew: their coins are no secret of a canary's. So he can
subtract what they contributed, and the rest is r = noise + Σ canary gradients. For a canary with clipped gradient c that
was drawn with probability q, a step's likelihood ratio is 1 − q + q·e^l with l = (⟨r, c⟩ − ‖c‖²/2)/(σC)².
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError, Claim, Columns, Setup
from audit.learning import Examples
from audit.mechanisms.marginals import set_up_jax
from audit.privacy import STRICT, ApproximateDP, PrivacyParameter

DIRAC = 1000.0
"""Norm of a Dirac canary's gradient before it is clipped."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Batches = Literal["poisson", "shuffled"]


# --- what comes out ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Trained:
    """Trainings, seen through their canaries.

    Args:
        inner: (n, steps, m) ⟨r, c⟩/C² of each step: what is left of it, in a canary's direction.
        square: (n, steps, m) ‖c‖²/C².
        loss: (n, m) final loss of each canary; that of a Dirac canary, which has none, is of its label at input zero.
        sigma: noise multiplier that was really there.
        rate: probability of being drawn in a step.
        per_epoch: steps of which exactly one draws an example where batches are shuffled; 0: Poisson.
    """

    inner: Array
    square: Array
    loss: Array
    sigma: float
    rate: float
    per_epoch: int = 0

    def public(self) -> Columns:
        """(n, m) how well the trained model knows each canary: minus its loss."""
        return Columns(_names("confidence", self.loss.shape[1]), -self.loss)

    def insider(self) -> Columns:
        """(n, 2m) the sum of inner products over all steps, and the logarithm of the likelihood ratio of all steps."""
        m = self.loss.shape[1]
        return Columns(_names("inner", m) + _names("ratio", m), np.hstack([self.inner.sum(axis=1), self.ratio()]))

    def of_canaries(self) -> Trained:
        """The first training, a row for each canary."""
        inner, square = (each[0].T[:, :, None] for each in (self.inner, self.square))
        return dataclasses.replace(self, inner=inner, square=square, loss=self.loss[0][:, None])

    def ratio(self) -> Array:
        """(n, m) log-likelihood ratio of each canary by itself, exact where no other one interferes with its direction."""
        step = (self.inner - self.square / 2) / self.sigma**2
        if not self.per_epoch:
            return np.sum(np.logaddexp(np.log1p(-self.rate), np.log(self.rate) + step), axis=1)
        epochs = step.reshape(len(step), -1, self.per_epoch, step.shape[2])
        return np.sum(np.logaddexp.reduce(epochs, axis=2) - np.log(self.per_epoch), axis=1)

    def log_ratio(self, absent: Examples, present: Examples) -> Array | None:
        """(n,) that of the only canary; None where there are more."""
        return self.ratio()[:, 0] if self.loss.shape[1] == 1 else None


def _names(what: str, count: int) -> tuple[str, ...]:
    return (what,) if count == 1 else tuple(f"{what}[{i}]" for i in range(count))


# --- the mechanism --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, config=STRICT)
class DPSGD:
    """Logistic regression, or one hidden layer, by DP-SGD with Poisson sampling: (ε, δ)-DP under add/remove.

    Args:
        eps, delta: what is claimed; the noise multiplier follows by the accountant of privacy-loss distributions.
        hidden: units of the hidden layer, tanh; 0: none, which is logistic regression from zero on.
        epochs: times that an example is used on average; epochs/rate steps in all.
        rate: probability q that a step draws an example.
        clip: C, the largest L2 norm of an example's gradient.
        learning_rate: of steps along the mean gradient.
        noise_scale: share of the noise that is really added; less than 1 is a bug to be found.
        clipped: ``example``: each gradient; ``sum``: a bug, the sum only.
        batches: ``poisson``: every example by its own coin; ``shuffled``: a bug, every example once an epoch in batches of
            a fixed share, accounted for as if by coins.
        noise: ``fresh``, or ``constant``: a bug, the same key in every step of every run.
        forgotten_epochs: a bug, epochs that the accountant does not know of.

    Raises:
        AuditError: settings that do not fit each other.

    References:
        Abadi et al. 2016, arXiv:1607.00133, Algorithm 1.
        Koskela, Jälkö, Honkela 2020, arXiv:1906.03049; Doroshenko et al. 2022, arXiv:2207.04380 (the accountant).
        Nasr et al. 2023, arXiv:2302.07956 (Dirac canaries, and scores from all steps).
    """

    eps: PrivacyParameter
    delta: Annotated[float, Field(gt=0, lt=1)]
    hidden: Annotated[int, Field(ge=0)] = 0
    epochs: Annotated[int, Field(ge=1)] = 10
    rate: Annotated[float, Field(gt=0, lt=1)] = 0.1
    clip: Positive = 1.0
    learning_rate: Positive = 1.0
    noise_scale: Positive = 1.0
    clipped: Literal["example", "sum"] = "example"
    batches: Batches = "poisson"
    noise: Literal["fresh", "constant"] = "fresh"
    forgotten_epochs: Annotated[int, Field(ge=0)] = 0

    block: ClassVar[int] = 100

    def __post_init__(self) -> None:
        if self.forgotten_epochs >= self.epochs:
            raise AuditError(
                f"mechanism.forgotten_epochs={self.forgotten_epochs} leaves nothing to account for; raise mechanism.epochs"
            )
        if self.batches == "shuffled" and abs(1 / self.rate - self.per_epoch) > 1e-9:
            raise AuditError(
                f"mechanism.rate={self.rate:g} is no whole share of an epoch; take one such as 0.1 or 0.05"
            )

    @property
    def per_epoch(self) -> int:
        """Steps of an epoch."""
        return max(1, round(1 / self.rate))

    @property
    def steps(self) -> int:
        """Steps in all."""
        return max(1, round(self.epochs / self.rate))

    @property
    def sigma(self) -> float:
        """The noise multiplier that the accountant asks for."""
        return noise_multiplier(
            self.eps, self.delta, self.rate, max(1, round((self.epochs - self.forgotten_epochs) / self.rate))
        )

    @property
    def claims(self) -> tuple[Claim, ...]:
        """(ε, δ) by the accountant, which rounds every loss up."""
        return (Claim(ApproximateDP(self.delta), self.eps),)

    def check_setup(self, setup: Setup) -> None:
        """Examples, with no more Dirac canaries than the model has coordinates."""
        for data in setup.data_sets:
            self._shapes(data)

    def _shapes(self, data: Examples) -> tuple[tuple[int, int], ...]:
        """(from, to) of each layer of the model."""
        shapes = layers(data.inputs.shape[1], self.hidden, data.classes)
        size = sum((a + 1) * b for a, b in shapes)
        if data.dirac and len(data.present) > size:
            raise AuditError(
                f"{len(data.present)} Dirac canaries need a coordinate each, and the model has {size}; lower canary.count,"
                " or raise mechanism.hidden"
            )
        return shapes

    def release(self, data: Examples, trials: int, rng: np.random.Generator) -> Trained:
        """``trials`` trainings.

        Raises:
            AuditError: when the data have more Dirac canaries than the model has coordinates.
        """
        shapes = self._shapes(data)
        real = self.sigma * self.noise_scale
        seeds = rng.integers(2**63, size=trials)
        train = _program(self, shapes, real, data.dirac)
        arrays = (data.inputs, data.labels, data.canary_inputs, data.canary_labels, data.present)
        inner, square, loss = (np.asarray(each) for each in train(seeds, *map(np.array, arrays)))
        per_epoch = self.per_epoch if self.batches == "shuffled" else 0
        return Trained(inner / self.clip**2, square / self.clip**2, loss, real, self.rate, per_epoch)


def layers(inputs: int, hidden: int, classes: int) -> tuple[tuple[int, int], ...]:
    """(from, to) of each layer.

    >>> layers(64, 0, 10), layers(64, 32, 10)
    (((64, 10),), ((64, 32), (32, 10)))
    """
    return ((inputs, hidden), (hidden, classes)) if hidden else ((inputs, classes),)


@functools.lru_cache(maxsize=256)
def noise_multiplier(eps: float, delta: float, rate: float, steps: int) -> float:
    """The least σ for which ``steps`` Poisson-sampled Gaussians are (ε, δ)-DP under add/remove, by dp_accounting's PLDs.

    >>> round(noise_multiplier(1.0, 1e-5, 0.1, 100), 2)
    3.94
    """
    import dp_accounting
    from dp_accounting import pld

    def event(sigma: float) -> Any:
        sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
        return dp_accounting.SelfComposedDpEvent(sampled, steps)

    def accountant() -> Any:
        return pld.PLDAccountant(value_discretization_interval=1e-3)

    return float(dp_accounting.calibrate_dp_mechanism(accountant, event, eps, delta))


# --- the program ------------------------------------------------------------------------------------------------------

Flat = Any
"""(size,) all weights of a model, or anything of their shape."""


@functools.lru_cache(maxsize=32)
def _program(
    mechanism: DPSGD, shapes: tuple[tuple[int, int], ...], sigma: float, dirac: bool
) -> Callable[..., tuple[Any, Any, Any]]:
    """A compiled batch of trainings: seeds (n,), examples → inner and square (n, steps, m), loss (n, m)."""
    jax = set_up_jax()
    train = functools.partial(_train, mechanism, shapes, sigma, dirac)
    return jax.jit(jax.vmap(train, in_axes=(0, *(None,) * 5)))


def _train(
    mechanism: DPSGD, shapes: tuple[tuple[int, int], ...], sigma: float, dirac: bool,
    seed: Any, x: Any, y: Any, canaries: Any, wanted: Any, present: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """One training."""
    import jax
    import jax.numpy as jnp

    n, m = len(y), len(wanted)
    clip, summed = mechanism.clip, mechanism.clipped == "sum"
    draw = _draws(mechanism, n + m)
    theta = _start(shapes)
    gradients = DiracGradients(m, len(theta)) if dirac else Gradients(shapes, canaries, wanted)
    expected = mechanism.rate * (n + m)  # of the public sizes: the number that was drawn would leak
    key = jax.random.key(seed)
    stuck = jax.random.key(0)

    def step(theta: Flat, t: Any) -> tuple[Flat, tuple[Any, Any]]:
        drawn = draw(key, t)
        norm = gradients.norm(theta)
        noise_key = stuck if mechanism.noise == "constant" else jax.random.fold_in(jax.random.fold_in(key, 1), t)
        noise = sigma * clip * jax.random.normal(noise_key, theta.shape)
        if summed:
            base = gradient_sum(theta, shapes, x, y, drawn[:n])
            whole = base + gradients.sum(theta, drawn[n:] * present)
            known, whole = (v * shrink(jnp.linalg.norm(v), clip) for v in (base, whole))
            rest = whole - known + noise
            inner, square = _alone(base, known, rest, norm, functools.partial(gradients.along, theta), clip)
        else:
            weight = drawn[:n] * shrink(jnp.sqrt(squares(theta, shapes, x, y)), clip)
            known = gradient_sum(theta, shapes, x, y, weight)
            rest = gradients.sum(theta, drawn[n:] * present * shrink(norm, clip)) + noise
            inner, square = shrink(norm, clip) * gradients.along(theta, rest), (shrink(norm, clip) * norm) ** 2
        return theta - mechanism.learning_rate / expected * (known + rest), (inner, square)

    theta, (inner, square) = jax.lax.scan(step, theta, jnp.arange(mechanism.steps))
    return inner, square, losses(theta, shapes, canaries, wanted)


@dataclasses.dataclass(frozen=True)
class Gradients:
    """Gradients of m canaries that are examples, none of them clipped."""

    shapes: tuple[tuple[int, int], ...]
    inputs: Any
    labels: Any

    def norm(self, theta: Flat) -> Any:
        """(m,) their lengths."""
        import jax.numpy as jnp

        return jnp.sqrt(squares(theta, self.shapes, self.inputs, self.labels))

    def along(self, theta: Flat, direction: Flat) -> Any:
        """(m,) their inner products with a direction."""
        import jax

        return jax.jvp(lambda w: losses(w, self.shapes, self.inputs, self.labels), (theta,), (direction,))[1]

    def sum(self, theta: Flat, weight: Any) -> Flat:
        """Their sum, each times its weight."""
        return gradient_sum(theta, self.shapes, self.inputs, self.labels, weight)


@dataclasses.dataclass(frozen=True)
class DiracGradients:
    """As `Gradients`, of ``count`` canaries whose gradients are a coordinate each, in a model of so many weights."""

    count: int
    size: int

    @property
    def place(self) -> Any:
        """(m,) the coordinates."""
        import jax.numpy as jnp

        return jnp.arange(self.count) * (self.size // max(self.count, 1))

    def norm(self, theta: Flat) -> Any:
        """See `Gradients.norm`."""
        import jax.numpy as jnp

        return jnp.sqrt(jnp.full(self.count, DIRAC**2))

    def along(self, theta: Flat, direction: Flat) -> Any:
        """See `Gradients.along`."""
        return DIRAC * direction[self.place]

    def sum(self, theta: Flat, weight: Any) -> Flat:
        """See `Gradients.sum`."""
        import jax.numpy as jnp

        return jnp.zeros_like(theta).at[self.place].add(DIRAC * weight)


def _alone(
    base: Flat, known: Flat, rest: Flat, norm: Any, along: Callable[[Flat], Any], clip: float
) -> tuple[Any, Any]:
    """(m,) ⟨rest, c⟩ and ‖c‖² for what each canary alone does to a clipped sum: c = clip(base + g) − clip(base)."""
    import jax.numpy as jnp

    size = jnp.linalg.norm(base)
    with_base = along(base)
    length = jnp.sqrt(jnp.maximum(size**2 + 2 * with_base + norm**2, 0.0))
    scale = shrink(length, clip)
    inner = scale * (rest @ base + along(rest)) - rest @ known
    both = scale * shrink(size, clip) * (size**2 + with_base)
    square = (scale * length) ** 2 - 2 * both + known @ known
    return inner, jnp.maximum(square, 0.0)


def _draws(mechanism: DPSGD, records: int) -> Callable[[Any, Any], Any]:
    """(key, step) → (records,) 1 for those that the step uses."""
    import jax

    def poisson(key: Any, t: Any) -> Any:
        return jax.random.bernoulli(jax.random.fold_in(jax.random.fold_in(key, 0), t), mechanism.rate, (records,)) * 1.0

    def shuffled(key: Any, t: Any) -> Any:
        epoch, part = t // mechanism.per_epoch, t % mechanism.per_epoch
        order = jax.random.permutation(jax.random.fold_in(jax.random.fold_in(key, 0), epoch), records)
        return (order % mechanism.per_epoch == part) * 1.0

    return poisson if mechanism.batches == "poisson" else shuffled


def shrink(norm: Any, clip: float) -> Any:
    """What a vector of this norm is multiplied with to have at most norm ``clip``."""
    import jax.numpy as jnp

    return jnp.minimum(1.0, clip / jnp.maximum(norm, 1e-12))


# --- the model --------------------------------------------------------------------------------------------------------


def _start(shapes: tuple[tuple[int, int], ...]) -> Flat:
    """Where training begins, public: zeros for logistic regression, else the same random weights for all."""
    size = sum((a + 1) * b for a, b in shapes)
    if len(shapes) == 1:
        return np.zeros(size)
    rng = np.random.default_rng(0)
    parts = [np.vstack([rng.normal(size=(a, b)) / np.sqrt(a), np.zeros((1, b))]).ravel() for a, b in shapes]
    return np.concatenate(parts)


def forward(theta: Flat, shapes: tuple[tuple[int, int], ...], x: Any, shifts: Any) -> tuple[Any, list[Any]]:
    """Logits (n, classes) and what goes into each layer (n, a), where ``shifts`` are added to what comes out of it."""
    import jax.numpy as jnp

    inputs, at = [x], 0
    for layer, (a, b) in enumerate(shapes):
        weights = theta[at : at + (a + 1) * b].reshape(a + 1, b)
        out = inputs[-1] @ weights[:a] + weights[a] + shifts[layer]
        at += (a + 1) * b
        inputs.append(jnp.tanh(out) if layer + 1 < len(shapes) else out)
    return inputs[-1], inputs[:-1]


def losses(theta: Flat, shapes: tuple[tuple[int, int], ...], x: Any, y: Any) -> Any:
    """(n,) cross-entropies."""
    return _cross_entropy(forward(theta, shapes, x, [0.0] * len(shapes))[0], y)


def _cross_entropy(logits: Any, y: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]


def gradient_sum(theta: Flat, shapes: tuple[tuple[int, int], ...], x: Any, y: Any, weight: Any) -> Flat:
    """(size,) Σ weight·gradient of the loss of each example."""
    import jax

    return jax.grad(lambda w: weight @ losses(w, shapes, x, y))(theta)


def squares(theta: Flat, shapes: tuple[tuple[int, int], ...], x: Any, y: Any) -> Any:
    """(n,) ‖gradient‖² of the loss of each example, without making any: Σ over layers of ‖delta‖²·(‖input‖² + 1).

    References:
        Goodfellow 2015, arXiv:1510.01799.
    """
    import jax
    import jax.numpy as jnp

    def total(shifts: Any) -> tuple[Any, Any]:
        logits, inputs = forward(theta, shapes, x, shifts)
        return jnp.sum(_cross_entropy(logits, y)), inputs

    zero = [jnp.zeros((len(x), b)) for _, b in shapes]
    deltas, inputs = jax.grad(total, has_aux=True)(zero)
    return sum(jnp.sum(d**2, axis=1) * (jnp.sum(a**2, axis=1) + 1) for d, a in zip(deltas, inputs, strict=True))
