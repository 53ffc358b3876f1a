"""Parses policies of a command line: ``asha:eta=4,min_steps=2``, ``halving+dynamic_fluid``.

A policy is the name of a scheduler (or ``their.module:Class``), optionally followed by a colon and
options, and optionally by a plus sign and an allocator in the same form. Commas separate both
options and policies: ``key=value`` without a colon before the equals sign is an option of the
previous policy. Values of options are YAML. The path of a study file (``.yaml``) stands for the
scheduler, allocator and curve predictor of that study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

import yaml

from hpo_ops.allocators import create_allocator
from hpo_ops.config import Flow, StudyConfig, load_study
from hpo_ops.curves import CurvePredictor, create_predictor
from hpo_ops.schedulers import SCHEDULERS, create_scheduler, why_rolling
from hpo_ops.simulator.policy_comparison import Policy

_OPENING, _CLOSING = "[{(", ")}]"


def parse_policies(
    texts: Sequence[str],
    *,
    max_steps: int,
    allocator: str | None = None,
    rounds: bool = False,
) -> dict[str, Policy]:
    """Parses the policies of a command line; returns each policy by the text that names it.

    Args:
        texts: Arguments of the command line; each may name several policies.
        max_steps: Steps of a full-length trial; used where a scheduler has the option
            ``max_steps`` and the text does not set it.
        allocator: Allocator of the policies whose text names none, as ``name`` or
            ``name:options``. It also replaces the allocators of study files. None for no allocator
            or, in a study file, the allocator of the study.
        rounds: Whether to replay in rounds (batches of trials with a barrier after each) where
            the scheduler supports rounds.

    Raises:
        ValueError: A name or an option is not allowed; the message says what is allowed.
        StudyError: A study file is invalid.
    """
    policies: dict[str, Policy] = {}
    for text in texts:
        for words in split_policies(text):
            policies[words] = parse_policy(
                words, max_steps=max_steps, allocator=allocator, rounds=rounds
            )
    if not policies:
        raise ValueError(f"scheduler is {' '.join(texts)!r}, but must name one or more policies")
    return policies


def parse_policy(
    words: str, *, max_steps: int, allocator: str | None = None, rounds: bool = False
) -> Policy:
    """Parses the text of one policy, or loads the policy from the study file that it names.

    The arguments are those of `parse_policies`.
    """
    if Path(words).suffix in (".yaml", ".yml"):
        return policy_of(load_study(Path(words)), allocator=allocator)
    first, plus, second = words.partition("+")
    name, options = parse_options(first)
    placing = second if plus else allocator
    return Policy(
        scheduler=create_scheduler(name, with_max_steps(name, options, max_steps)),
        allocator=None if placing is None else create_allocator(*parse_options(placing)),
        rounds=rounds and why_rolling(name) is None,
    )


def policy_of(study: StudyConfig, *, allocator: str | None = None) -> Policy:
    """Returns the scheduler and allocator that a study's configuration names, to be replayed.

    Args:
        study: The configuration of the study.
        allocator: Replaces the allocator of the study, as ``name`` or ``name:options``; None to
            use the allocator of the study.
    """
    named = None if allocator is None else create_allocator(*parse_options(allocator))
    return Policy(
        scheduler=study.create_scheduler(),
        allocator=named or study.create_allocator(),
        rounds=study.flow is Flow.ROUNDS,
        at_barrier=study.reproducible,
        predictor=create_predictor(study.curves.name, study.curves.options, seed=study.seed),
    )


def parse_predictor(words: str, *, seed: int) -> CurvePredictor:
    """Parses a curve predictor: ``wandering``, ``mcmc:steps=2500``, ``their.module:Class``.

    Raises:
        ValueError: The name or an option is not allowed; the message says what is allowed.
    """
    name, options = parse_options(words)
    return create_predictor(name, options, seed=seed)


def with_max_steps(
    name: str, options: Mapping[str, object], max_steps: int
) -> Mapping[str, object]:
    """Returns a scheduler's options, with ``max_steps`` added if it is missing.

    Returns the options unchanged if the scheduler is not built in or has no such option.
    """
    kind = SCHEDULERS.get(name)
    if "max_steps" in options or kind is None or not is_dataclass(kind):
        return options
    if all(item.name != "max_steps" for item in fields(kind)):
        return options
    return {**options, "max_steps": max_steps}


def split_policies(text: str) -> list[str]:
    """Splits ``asha:eta=4,min_steps=2,pop`` into ``["asha:eta=4,min_steps=2", "pop"]``."""
    found: list[str] = []
    for piece in _split_at_commas(text):
        key = piece.partition("=")[0]
        is_option = "=" in piece and ":" not in key
        if is_option and found:
            found[-1] += f",{piece}"
        elif piece:
            found.append(piece)
    return found


def parse_options(words: str) -> tuple[str, dict[str, object]]:
    """Splits ``asha:eta=4`` into the name ``asha`` and the options ``{"eta": 4}``.

    Raises:
        ValueError: An option is not of the form key=value, or its value is not YAML.
    """
    before, equals, _ = words.partition("=")
    if not equals:
        return words.strip(), {}
    name, colon, _ = before.rpartition(":")
    if not colon:
        raise ValueError(f"{words!r} is not of the form name:key=value,key=value")
    options: dict[str, object] = {}
    for piece in _split_at_commas(words[len(name) + 1 :]):
        key, equals, value = piece.partition("=")
        if not equals:
            raise ValueError(f"{words!r}: {piece!r} is not of the form key=value")
        try:
            options[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ValueError(f"{words!r}: {value!r} is not a value ({error})") from error
    return name.strip(), options


def _split_at_commas(text: str) -> list[str]:
    """Splits text at the commas that are not inside brackets."""
    pieces, depth = [""], 0
    for letter in text:
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]
