"""Training by noisy stochastic gradients (DP-SGD), and what an insider sees of each canary.

A step adds up the gradients of the examples that are drawn, each clipped to norm C, and
N(0, (σC)²) in every coordinate. The insider knows the base examples, and which of them each step
drew: their coins are no secret of a canary's. So he can subtract what they contributed, and the
rest is r = noise + Σ canary gradients. For a canary with clipped gradient c that was drawn with
probability q, a step's likelihood ratio is 1 − q + q·e^l with l = (⟨r, c⟩ − ‖c‖²/2)/(σC)².

Many trainings are one compiled program. Its versions with a bug are in `broken.dp_sgd`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from audit.core import Array, AuditError, Claim, Columns, Setup
from audit.learning import Examples
from audit.mechanisms.marginals import set_up_jax
from audit.mechanisms.queries import Positive
from audit.privacy import STRICT, ApproximateDP, PrivacyParameter

DIRAC = 1000.0
"""Norm of a Dirac canary's gradient before it is clipped."""

Shapes = tuple[tuple[int, int], ...]
"""(from, to) of each layer of a model."""

Flat = Any
"""(size,) all weights of a model, or anything of their shape: a JAX array."""


# --- what comes out -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Trained:
    """Trainings, as seen through their canaries.

    Args:
        inner: (n, steps, m) ⟨r, c⟩/C² of each step: what is left of it, in a canary's direction.
        square: (n, steps, m) ‖c‖²/C².
        loss: (n, m) final loss of each canary; that of a Dirac canary, which has none, is of its
            label at input zero.
        sigma: noise multiplier of the noise that was added.
        rate: probability of being drawn in a step.
    """

    inner: Array
    square: Array
    loss: Array
    sigma: float
    rate: float

    def public(self) -> Columns:
        """(n, m) how well the trained model knows each canary: minus its loss."""
        return Columns(_names("confidence", self.loss.shape[1]), -self.loss)

    def insider(self) -> Columns:
        """(n, 2m) the sum of inner products over all steps, and the log-likelihood ratio of all."""
        canaries = self.loss.shape[1]
        names = _names("inner", canaries) + _names("ratio", canaries)
        return Columns(names, np.hstack([self.inner.sum(axis=1), self.ratio()]))

    def of_canaries(self) -> Trained:
        """The first training, a row for each canary."""
        inner = self.inner[0].T[:, :, None]
        square = self.square[0].T[:, :, None]
        return dataclasses.replace(self, inner=inner, square=square, loss=self.loss[0][:, None])

    def ratio(self) -> Array:
        """(n, m) log-likelihood ratio of each canary by itself.

        Exact where no other canary interferes with its direction.
        """
        # ln(1 − q + q·e^l), kept in logarithms so that a large l does not overflow.
        log_not_drawn = np.log1p(-self.rate)
        log_drawn = np.log(self.rate) + self.step_log_ratios()
        return np.sum(np.logaddexp(log_not_drawn, log_drawn), axis=1)

    def step_log_ratios(self) -> Array:
        """(n, steps, m) l, the log-likelihood ratio of a step that is known to draw the canary."""
        return (self.inner - self.square / 2) / self.sigma**2

    def log_ratio(self, absent: Examples, present: Examples) -> Array | None:
        """(n,) that of the only canary; None where there are more."""
        return self.ratio()[:, 0] if self.loss.shape[1] == 1 else None


def _names(what: str, count: int) -> tuple[str, ...]:
    if count == 1:
        return (what,)
    return tuple(f"{what}[{i}]" for i in range(count))


# --- the mechanism --------------------------------------------------------------------------------


@dataclass(frozen=True, config=STRICT)
class DPSGD:
    """Logistic regression, or one hidden layer, by DP-SGD with Poisson sampling.

    (ε, δ)-DP under add/remove.

    Args:
        eps, delta: the claim; the noise multiplier follows by the accountant of privacy-loss
            distributions.
        hidden: units of the hidden layer, tanh; 0: none, which is logistic regression from zero on.
        epochs: times that an example is used on average; epochs/rate steps in all.
        rate: probability q that a step draws an example.
        clip: C, the largest L2 norm of an example's gradient.
        learning_rate: of steps along the mean gradient.

    References:
        Abadi et al. 2016, arXiv:1607.00133, Algorithm 1.
        Koskela, Jälkö, Honkela 2020, arXiv:1906.03049; Doroshenko et al. 2022, arXiv:2207.04380
        (the accountant).
        Nasr et al. 2023, arXiv:2302.07956 (Dirac canaries, and scores from all steps).
    """

    eps: PrivacyParameter
    delta: Annotated[float, Field(gt=0, lt=1)]
    hidden: Annotated[int, Field(ge=0)] = 0
    epochs: Annotated[int, Field(ge=1)] = 10
    rate: Annotated[float, Field(gt=0, lt=1)] = 0.1
    clip: Positive = 1.0
    learning_rate: Positive = 1.0

    block: ClassVar[int] = 100

    @property
    def steps(self) -> int:
        """Steps in all."""
        return max(1, round(self.epochs / self.rate))

    @property
    def accounted_steps(self) -> int:
        """Steps that the accountant knows of: all."""
        return self.steps

    @property
    def sigma(self) -> float:
        """The noise multiplier that the accountant asks for."""
        return noise_multiplier(self.eps, self.delta, self.rate, self.accounted_steps)

    @property
    def added_sigma(self) -> float:
        """The noise multiplier of the noise that is added."""
        return self.sigma

    @property
    def claims(self) -> tuple[Claim, ...]:
        """(ε, δ) by the accountant, which rounds every loss up."""
        return (Claim(ApproximateDP(self.delta), self.eps),)

    def check_setup(self, setup: Setup) -> None:
        """Raise AuditError if there are more Dirac canaries than the model has coordinates."""
        for data in setup.data_sets:
            self._shapes(data)

    def _shapes(self, data: Examples) -> Shapes:
        shapes = layers(data.inputs.shape[1], self.hidden, data.classes)
        size = model_size(shapes)
        if data.dirac and len(data.present) > size:
            raise AuditError(
                f"{len(data.present)} Dirac canaries need a coordinate each, and the model has"
                f" {size}; lower canary.count, or raise mechanism.hidden"
            )
        return shapes

    def release(self, data: Examples, trials: int, rng: np.random.Generator) -> Trained:
        """``trials`` trainings.

        Raises:
            AuditError: the data have more Dirac canaries than the model has coordinates.
        """
        shapes = self._shapes(data)
        sigma = self.added_sigma
        seeds = rng.integers(2**63, size=trials)
        train = _program(self, shapes, sigma, data.dirac)
        inner, square, loss = train(
            seeds,
            np.array(data.inputs),
            np.array(data.labels),
            np.array(data.canary_inputs),
            np.array(data.canary_labels),
            np.array(data.present),
        )
        return Trained(
            inner=np.asarray(inner) / self.clip**2,
            square=np.asarray(square) / self.clip**2,
            loss=np.asarray(loss),
            sigma=sigma,
            rate=self.rate,
        )

    # What a step consists of. These run inside the compiled program, on JAX arrays.

    def draws(self, key: Any, step: Any, records: int) -> Any:
        """(records,) 1 for those that the step uses: each by its own coin."""
        import jax

        step_key = jax.random.fold_in(jax.random.fold_in(key, 0), step)
        return jax.random.bernoulli(step_key, self.rate, (records,)) * 1.0

    def noise_key(self, key: Any, step: Any) -> Any:
        """The key of a step's noise: another one in each step of each training."""
        import jax

        return jax.random.fold_in(jax.random.fold_in(key, 1), step)

    def clipped(self, step: Step) -> ClippedStep:
        """The step with each gradient clipped to norm ``clip``."""
        import jax.numpy as jnp

        base_norm = jnp.sqrt(squares(step.theta, step.shapes, step.inputs, step.labels))
        base_weight = step.drawn_base * shrink(base_norm, self.clip)
        known = gradient_sum(step.theta, step.shapes, step.inputs, step.labels, base_weight)
        canary_factor = shrink(step.canary_norm, self.clip)
        canary_sum = step.canaries.sum(step.theta, step.drawn_canaries * canary_factor)
        rest = canary_sum + step.noise
        inner = canary_factor * step.canaries.along(step.theta, rest)
        square = (canary_factor * step.canary_norm) ** 2
        return ClippedStep(known, rest, inner, square)


def layers(inputs: int, hidden: int, classes: int) -> Shapes:
    """(from, to) of each layer.

    >>> layers(64, 0, 10), layers(64, 32, 10)
    (((64, 10),), ((64, 32), (32, 10)))
    """
    if hidden:
        return ((inputs, hidden), (hidden, classes))
    return ((inputs, classes),)


def model_size(shapes: Shapes) -> int:
    """Number of weights, one bias a unit included.

    >>> model_size(layers(64, 0, 10))
    650
    """
    return sum((fan_in + 1) * fan_out for fan_in, fan_out in shapes)


@functools.lru_cache(maxsize=256)
def noise_multiplier(eps: float, delta: float, rate: float, steps: int) -> float:
    """The least σ for which ``steps`` Poisson-sampled Gaussians are (ε, δ)-DP under add/remove.

    By dp_accounting's privacy-loss distributions.

    >>> round(noise_multiplier(1.0, 1e-5, 0.1, 100), 2)
    3.94
    """
    import dp_accounting
    from dp_accounting import pld

    def event(sigma: float) -> Any:
        gaussian = dp_accounting.GaussianDpEvent(sigma)
        sampled = dp_accounting.PoissonSampledDpEvent(rate, gaussian)
        return dp_accounting.SelfComposedDpEvent(sampled, steps)

    def accountant() -> Any:
        return pld.PLDAccountant(value_discretization_interval=1e-3)

    return float(dp_accounting.calibrate_dp_mechanism(accountant, event, eps, delta))


# --- the program ----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=32)
def _program(
    mechanism: DPSGD, shapes: Shapes, sigma: float, dirac: bool
) -> Callable[..., tuple[Any, Any, Any]]:
    """A compiled batch of trainings: (n,) seeds, examples → `_train` of each seed."""
    jax = set_up_jax()
    train = functools.partial(_train, mechanism, shapes, sigma, dirac)
    over_seeds_only = (0, None, None, None, None, None)
    return jax.jit(jax.vmap(train, in_axes=over_seeds_only))


@dataclasses.dataclass(frozen=True)
class Step:
    """What a step of one training works on.

    Args:
        theta: weights before it.
        shapes: of the model's layers.
        inputs: (n, d) of the base examples.
        labels: (n,) of the base examples.
        drawn_base: (n,) 1 for the base examples that it uses.
        canaries: their gradients.
        canary_norm: (m,) the lengths of these.
        drawn_canaries: (m,) 1 for the canaries that are there and that it uses.
        noise: what is added.
    """

    theta: Flat
    shapes: Shapes
    inputs: Any
    labels: Any
    drawn_base: Any
    canaries: Gradients | DiracGradients
    canary_norm: Any
    drawn_canaries: Any
    noise: Flat


@dataclasses.dataclass(frozen=True)
class ClippedStep:
    """What a step releases, known + rest, and what an insider reads in it.

    Args:
        known: what the base examples contributed.
        rest: canary gradients and noise.
        inner: (m,) ⟨rest, c⟩ for each canary's clipped gradient c.
        square: (m,) ‖c‖².
    """

    known: Flat
    rest: Flat
    inner: Any
    square: Any


def _train(
    mechanism: DPSGD,
    shapes: Shapes,
    sigma: float,
    dirac: bool,
    seed: Any,
    inputs: Any,
    labels: Any,
    canary_inputs: Any,
    canary_labels: Any,
    present: Any,
) -> tuple[Any, Any, Any]:
    """One training → (steps, m) inner and square of each step, (m,) final losses."""
    import jax
    import jax.numpy as jnp

    base = len(labels)
    records = base + len(canary_labels)
    start = _start(shapes)
    canaries: Gradients | DiracGradients
    if dirac:
        canaries = DiracGradients(len(canary_labels), len(start))
    else:
        canaries = Gradients(shapes, canary_inputs, canary_labels)
    # Divided by the expected number of examples: the number that was drawn would leak.
    step_size = mechanism.learning_rate / (mechanism.rate * records)
    key = jax.random.key(seed)

    def one_step(theta: Flat, number: Any) -> tuple[Flat, tuple[Any, Any]]:
        drawn = mechanism.draws(key, number, records)
        noise_key = mechanism.noise_key(key, number)
        step = Step(
            theta=theta,
            shapes=shapes,
            inputs=inputs,
            labels=labels,
            drawn_base=drawn[:base],
            canaries=canaries,
            canary_norm=canaries.norm(theta),
            drawn_canaries=drawn[base:] * present,
            noise=sigma * mechanism.clip * jax.random.normal(noise_key, theta.shape),
        )
        released = mechanism.clipped(step)
        theta = theta - step_size * (released.known + released.rest)
        return theta, (released.inner, released.square)

    theta, (inner, square) = jax.lax.scan(one_step, start, jnp.arange(mechanism.steps))
    return inner, square, losses(theta, shapes, canary_inputs, canary_labels)


@dataclasses.dataclass(frozen=True)
class Gradients:
    """Gradients of m canaries that are examples, before they are clipped."""

    shapes: Shapes
    inputs: Any
    labels: Any

    def norm(self, theta: Flat) -> Any:
        """(m,) their lengths."""
        import jax.numpy as jnp

        return jnp.sqrt(squares(theta, self.shapes, self.inputs, self.labels))

    def along(self, theta: Flat, direction: Flat) -> Any:
        """(m,) their inner products with a direction."""
        import jax

        # One forward-mode derivative of all losses, in place of m gradients.
        def canary_losses(weights: Flat) -> Any:
            return losses(weights, self.shapes, self.inputs, self.labels)

        _, inner_products = jax.jvp(canary_losses, (theta,), (direction,))
        return inner_products

    def sum(self, theta: Flat, weight: Any) -> Flat:
        """Their sum, each times its weight."""
        return gradient_sum(theta, self.shapes, self.inputs, self.labels, weight)


@dataclasses.dataclass(frozen=True)
class DiracGradients:
    """As `Gradients`, of ``count`` canaries whose gradients are one coordinate of ``size`` each."""

    count: int
    size: int

    @property
    def coordinates(self) -> Any:
        """(m,) of each canary's gradient, spread evenly over the model."""
        import jax.numpy as jnp

        return jnp.arange(self.count) * (self.size // max(self.count, 1))

    def norm(self, theta: Flat) -> Any:
        """See `Gradients.norm`."""
        import jax.numpy as jnp

        return jnp.sqrt(jnp.full(self.count, DIRAC**2))

    def along(self, theta: Flat, direction: Flat) -> Any:
        """See `Gradients.along`."""
        return DIRAC * direction[self.coordinates]

    def sum(self, theta: Flat, weight: Any) -> Flat:
        """See `Gradients.sum`."""
        import jax.numpy as jnp

        return jnp.zeros_like(theta).at[self.coordinates].add(DIRAC * weight)


def shrink(norm: Any, clip: float) -> Any:
    """What a vector of this norm is multiplied with to have at most norm ``clip``."""
    import jax.numpy as jnp

    return jnp.minimum(1.0, clip / jnp.maximum(norm, 1e-12))  # no division by a zero gradient


# --- the model ------------------------------------------------------------------------------------


def _start(shapes: Shapes) -> Flat:
    """Where training begins, public: zeros for logistic regression, else random weights."""
    if len(shapes) == 1:
        return np.zeros(model_size(shapes))
    rng = np.random.default_rng(0)  # the same weights in every training
    parts = []
    for fan_in, fan_out in shapes:
        weights = rng.normal(size=(fan_in, fan_out)) / np.sqrt(fan_in)
        biases = np.zeros((1, fan_out))
        parts.append(np.vstack([weights, biases]).ravel())
    return np.concatenate(parts)


def forward(theta: Flat, shapes: Shapes, x: Any, shifts: Any) -> tuple[Any, list[Any]]:
    """Logits (n, classes), and what goes into each layer (n, from).

    ``shifts``, one a layer, are added to what comes out of it before tanh.
    """
    import jax.numpy as jnp

    layer_inputs = []
    offset = 0
    for layer, (fan_in, fan_out) in enumerate(shapes):
        size = (fan_in + 1) * fan_out
        weights = theta[offset : offset + size].reshape(fan_in + 1, fan_out)
        offset += size
        layer_inputs.append(x)
        out = x @ weights[:fan_in] + weights[fan_in] + shifts[layer]
        is_last = layer + 1 == len(shapes)
        x = out if is_last else jnp.tanh(out)
    return x, layer_inputs


def losses(theta: Flat, shapes: Shapes, x: Any, y: Any) -> Any:
    """(n,) cross-entropies."""
    logits, _ = forward(theta, shapes, x, [0.0] * len(shapes))
    return _cross_entropy(logits, y)


def _cross_entropy(logits: Any, y: Any) -> Any:
    import jax
    import jax.numpy as jnp

    log_probabilities = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_probabilities, y[:, None], axis=1)[:, 0]


def gradient_sum(theta: Flat, shapes: Shapes, x: Any, y: Any, weight: Any) -> Flat:
    """(size,) Σ weight·gradient of the loss of each example."""
    import jax

    # The gradient of the weighted sum of losses: no gradient of a single example is made.
    return jax.grad(lambda weights: weight @ losses(weights, shapes, x, y))(theta)


def squares(theta: Flat, shapes: Shapes, x: Any, y: Any) -> Any:
    """(n,) ‖gradient‖² of the loss of each example, without making any.

    Σ over layers of ‖delta‖²·(‖input‖² + 1): a layer's gradient is the outer product of what goes
    into it (1 for the bias) and of the loss's derivative by what comes out of it.

    References:
        Goodfellow 2015, arXiv:1510.01799.
    """
    import jax
    import jax.numpy as jnp

    # An example's outputs enter its own loss only, so one gradient by shifts of the outputs has
    # the deltas of all examples.
    def total_loss(shifts: Any) -> tuple[Any, Any]:
        logits, layer_inputs = forward(theta, shapes, x, shifts)
        return jnp.sum(_cross_entropy(logits, y)), layer_inputs

    no_shifts = [jnp.zeros((len(x), fan_out)) for _, fan_out in shapes]
    deltas, layer_inputs = jax.grad(total_loss, has_aux=True)(no_shifts)
    total: Any = 0
    for delta, layer_input in zip(deltas, layer_inputs, strict=True):
        total = total + jnp.sum(delta**2, axis=1) * (jnp.sum(layer_input**2, axis=1) + 1)
    return total
