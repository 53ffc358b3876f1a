"""Implements the policy network of REINFORCE in torch.

The network gives the distribution of each parameter, conditional on the preceding parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from hpo_ops.samplers._parameter_bins import ABSENT, Axis

FREQUENCIES = 6
"""Number of cosine features of a numeric bin, with which neighbouring bins share gradients."""
_REAL = torch.float64
_NEVER = -1e4
"""Log probability of padding bins; minus infinity would make the gradient undefined."""
_MOMENT, _SQUARE, _TINY = 0.9, 0.999, 1e-8
# The tensors are tiny: with several threads each operation takes seven times as long.
torch.set_num_threads(1)


class Policy:
    """An autoregressive policy with masked attention: a parameter attends to all preceding values.

    Before the first gradient step, each bin has its prior probability.

    Args:
        axes: The parameters, in the order in which they are drawn.
        seed: The seed of the initial weights.
        width: Dimension of the embeddings of parameters and values.
        learning_rate: Adam's learning rate.
        entropy: Weight of the entropy, which keeps the policy from converging too early.
    """

    def __init__(
        self, axes: Sequence[Axis], *, seed: int, width: int, learning_rate: float, entropy: float
    ) -> None:
        self._width, self._rate, self._entropy = width, learning_rate, entropy
        self.sizes = [len(axis.priors) for axis in axes]
        count, largest = len(axes), max(self.sizes)
        features = [_features(axis) for axis in axes]
        depth = max(each.shape[1] for each in features)
        self._features = torch.zeros(count, largest, depth, dtype=_REAL)
        self._prior = torch.full((count, largest), _NEVER, dtype=_REAL)
        for index, (axis, feature) in enumerate(zip(axes, features, strict=True)):
            self._features[index, : feature.shape[0], : feature.shape[1]] = feature
            self._prior[index, : feature.shape[0]] = torch.tensor(axis.priors, dtype=_REAL).log()
        self._most = torch.tensor([math.log(max(size, 2)) for size in self.sizes], dtype=_REAL)
        # Row j may look at the start and at the parameters before j.
        self._hidden = ~torch.ones(count, count + 1, dtype=torch.bool).tril()
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape: int, scale: float) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=_REAL) * scale

        self._start = drawn(1, width, scale=0.5)
        self._names = drawn(count, width, scale=0.5)
        self._values = drawn(count, depth, width, scale=0.5)
        self._absent = drawn(count, width, scale=0.5)
        self._query, self._key, self._content = (
            drawn(width, width, scale=width**-0.5) for _ in range(3)
        )
        self._head = torch.zeros(count, width, depth, dtype=_REAL)
        self._bias = torch.zeros(count, depth, dtype=_REAL)
        self._weights = [
            self._start, self._names, self._values, self._absent,
            self._query, self._key, self._content, self._head, self._bias,
        ]  # fmt: skip
        for weight in self._weights:
            weight.requires_grad_()
        self._moments = [torch.zeros_like(weight) for weight in self._weights]
        self._squares = [torch.zeros_like(weight) for weight in self._weights]
        self._steps = 0

    def probabilities(self, taken: Sequence[int]) -> list[float]:
        """Returns the probability of each bin of the next parameter.

        Args:
            taken: The chosen bins of the preceding parameters.
        """
        here = len(taken)
        row = [*taken, *[ABSENT] * (len(self.sizes) - here)]
        with torch.no_grad():
            logs = self._logs(torch.tensor([row]))[0, here, : self.sizes[here]]
        found: list[float] = logs.exp().tolist()
        return found

    def learn(self, points: Sequence[Sequence[int]], advantages: Sequence[float]) -> None:
        """Makes one gradient step that increases the mean of advantage times log probability.

        A weighted entropy bonus is added to the objective.

        Args:
            points: The chosen bins of each configuration.
            advantages: The advantage of each configuration.
        """
        taken = torch.tensor([list(point) for point in points])
        exists = taken != ABSENT
        logs = self._logs(taken)
        chosen = logs.gather(-1, taken.clamp(min=0)[..., None])[..., 0]
        log_probability = torch.where(exists, chosen, 0.0).sum(-1)
        spread = -(logs.exp() * logs).sum(-1) / self._most
        gain = (torch.tensor(advantages, dtype=_REAL) * log_probability).mean()
        bonus = torch.where(exists, spread, 0.0).sum(-1).mean()
        self._climb(torch.autograd.grad(gain + self._entropy * bonus, self._weights))

    def _logs(self, taken: Tensor) -> Tensor:
        """Computes the log probability of each bin, given the preceding parameters' chosen bins.

        The result is indexed by configuration, parameter and bin.
        """
        parameters = torch.arange(len(self.sizes))
        seen = torch.einsum(
            "njk,jkw->njw", self._features[parameters, taken.clamp(min=0)], self._values
        )
        seen = torch.where((taken != ABSENT)[..., None], seen, self._absent)
        start = self._start.expand(len(taken), 1, -1)
        tokens = torch.cat([start, self._names + seen], dim=1)
        match = torch.einsum("jw,niw->nji", self._names @ self._query, tokens @ self._key)
        match = (match / math.sqrt(self._width)).masked_fill(self._hidden, -math.inf)
        context = torch.einsum("nji,niw->njw", match.softmax(-1), tokens @ self._content)
        hidden = torch.tanh(self._names + context)
        code = torch.einsum("njw,jwk->njk", hidden, self._head) + self._bias
        return (torch.einsum("njk,jbk->njb", code, self._features) + self._prior).log_softmax(-1)

    def _climb(self, gradients: Sequence[Tensor]) -> None:
        """Updates the weights by one ascent step of Adam.

        Torch's own Adam is not used because it would load torch's compiler.
        """
        self._steps += 1
        first, second = 1 - _MOMENT**self._steps, 1 - _SQUARE**self._steps
        with torch.no_grad():
            for weight, gradient, moment, square in zip(
                self._weights, gradients, self._moments, self._squares, strict=True
            ):
                moment.mul_(_MOMENT).add_(gradient, alpha=1 - _MOMENT)
                square.mul_(_SQUARE).addcmul_(gradient, gradient, value=1 - _SQUARE)
                weight += self._rate * (moment / first) / ((square / second).sqrt() + _TINY)


def _features(axis: Axis) -> Tensor:
    """Returns the feature vectors of a parameter's bins, by bin.

    They are low-frequency cosines for a numeric parameter with more than two bins, and one-hot
    vectors otherwise.
    """
    size = len(axis.priors)
    if not axis.is_ordered or size <= 2:
        return torch.eye(size, dtype=_REAL)
    wave = torch.arange(1, min(FREQUENCIES, size - 1) + 1, dtype=_REAL)
    place = (torch.arange(size, dtype=_REAL)[:, None] + 0.5) / size
    return math.sqrt(2) * torch.cos(math.pi * wave * place) / wave
