"""Motions that began elsewhere: solved as well, and compared with the one that was found first."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from fgmbs.compiled.program import program
from fgmbs.problems.estimation.first_state import DECIDED, SAME, Starts, distances
from fgmbs.problems.estimation.graph import SENSORS
from fgmbs.problems.estimation.posterior import Survey
from fgmbs.problems.smooth.beginning import SmoothingState
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.status import Status, is_one_of
from fgmbs.typing import Scalar


class Motion(NamedTuple):
    """A motion that explains the recordings."""

    problem: SmoothingProblem
    at: SmoothingState
    seen: Survey

    @property
    def converged(self) -> bool:
        return is_one_of(self.at.status, Status.converged)

    @property
    def chi2(self) -> float:
        """Sum of squares of all residuals over time, outliers counting as much as their losses let them pull."""
        total = 0.0
        passed = (*np.ones(SENSORS), *np.asarray(self.problem.passed))
        for rows, mean in zip(self.seen.factors, passed, strict=True):
            r, weight = np.asarray(rows.residual), np.asarray(rows.weight)  # in NumPy, which compiles nothing
            total += float(np.sum((weight * np.where(weight > 0, r, 0.0)) ** 2)) / mean
        return total

    @property
    def log_likelihood(self) -> float:
        """NaN where the iteration did not converge."""
        return float(self.seen.log_likelihood) if self.converged else np.nan


class Compared(NamedTuple):
    """The most likely of the motions that were solved."""

    best: Motion
    log_likelihoods: Float[np.ndarray, "recordings candidates"] | None
    """Of the starts of each recording, those of the others as they are in the best; −∞ where nothing as likely was
    found, NaN of one that was not tried or did not converge. None until they were compared."""

    @property
    def others(self) -> int:
        """How many motions from other starts it was compared with; −1 before they were looked for."""
        told = self.log_likelihoods
        return -1 if told is None else int(np.sum(~np.isnan(told))) - len(told)


def compared(first: Motion, starts: Starts, solved: Callable[[SmoothingProblem], Motion]) -> Iterator[Compared]:
    """The most likely motion, after every start that was solved.

    Solved are the starts from which the first samples cost little more than from the best one, and, while nothing has
    converged, any. A start that was given is kept unless another one is more likely by far. Motions that differ by
    whole turns are the same; where no start was given the one that begins nearest to the drawing is kept.

    Args:
        first: The motion that was found first.
        starts: Its own start, and others, compared by the first samples.
        solved: Solves a problem with one start for each recording.
    """
    best, behind = first, np.atleast_2d(np.array(starts.behind))
    given = np.atleast_1d(np.asarray(first.problem.recording.given))
    origin, log_likelihoods = np.zeros(len(behind), int), np.full(behind.shape, np.nan)
    for number in range(len(behind)):
        log_likelihoods[number, origin[number]] = best.log_likelihood
        order = np.argsort(behind[number], kind="stable")
        for k in [k for k in order if np.isfinite(behind[number, k]) and k != origin[number]]:
            if behind[number, k] >= DECIDED and best.converged:
                break
            elsewhere = origin.copy()
            elsewhere[number] = k
            other = solved(_begun_at(first.problem, starts, elsewhere))
            if not other.converged:
                worse = best.converged and float(other.seen.log_likelihood) < best.log_likelihood - DECIDED
                log_likelihoods[number, k] = -np.inf if worse else np.nan
                continue
            if float(_apart(best, other)) <= SAME:
                if given[number] or _from_drawing(other, number) > _from_drawing(best, number) - SAME:
                    behind[number, k] = np.inf
                    continue
                same = number, origin[number]
                behind[same], log_likelihoods[same] = np.inf, np.nan
                best, origin = other, elsewhere
            log_likelihoods[number, k] = other.log_likelihood
            kept = DECIDED if given[number] and origin[number] == 0 and best.converged else 0.0
            if not other.log_likelihood <= best.log_likelihood + kept:
                best, origin = other, elsewhere
            yield _compared(best, starts, origin, behind, log_likelihoods)
    yield _compared(best, starts, origin, behind, log_likelihoods)


def _compared(
    best: Motion, starts: Starts, origin: np.ndarray, behind: np.ndarray, log_likelihoods: np.ndarray
) -> Compared:
    of = lambda array, like: jax.device_put(array.reshape(like.shape))
    starts = starts._replace(best=of(origin, starts.best), behind=of(behind, starts.behind))
    return Compared(best._replace(at=eqx.tree_at(lambda at: at.starts, best.at, starts)), log_likelihoods.copy())


def _begun_at(problem: SmoothingProblem, starts: Starts, origin: np.ndarray) -> SmoothingProblem:
    """The problem with these starts alone, as their first sample says."""
    recording = problem.recording
    origin = jnp.asarray(origin.reshape(starts.best.shape))
    tried = jnp.arange(recording.tried.shape[-1]) == origin[..., None]
    return problem.of(recording._replace(starts=starts.posed, tried=tried))


def _from_drawing(motion: Motion, number: int) -> float:
    """How far a motion in one of the recordings begins from the drawing of the mechanism, relative to its reach."""
    mechanism, steps = motion.problem.mechanism, motion.at.x.steps
    first = steps.reshape(-1, motion.problem.steps, steps.shape[-1])[number, :1, : mechanism.n]
    return float(distances(mechanism, mechanism.reference, first)[0])


@program
def _apart(one: Motion, other: Motion) -> Scalar:
    """Largest distance of two motions, relative to the reach of the mechanism, but for whole turns."""
    mechanism = one.problem.mechanism
    n, steps = mechanism.n, one.problem.steps

    def at_step(x, y):
        return distances(mechanism, x[:n], y[None, :n], turns=False)[0]

    apart = jax.vmap(at_step)(*(motion.at.x.steps.reshape(-1, motion.at.x.steps.shape[-1]) for motion in (one, other)))
    there = jnp.arange(steps) < jnp.atleast_1d(one.problem.recording.count)[:, None]
    return jnp.max(jnp.where(there.ravel(), apart, 0.0))
