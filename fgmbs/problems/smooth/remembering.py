"""White unknown forces get a memory where the data ask for one."""

from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fgmbs.compiled.ahead import compiled_ahead
from fgmbs.inputs import Disturbance, remembered, white
from fgmbs.problems.estimation.memory import Asked, memory_asked
from fgmbs.problems.estimation.noise_sizes import VAGUE, SizeSearch
from fgmbs.problems.estimation.posterior import Survey
from fgmbs.problems.smooth.beginning import SmoothingState, begun_at
from fgmbs.problems.smooth.iteration import to_the_end
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import lowered_rounds
from fgmbs.status import Status
from fgmbs.unknowns import Unknown, freed

BETTER = 5.0
"""Rise of the logarithm of the likelihood for which a memory is tried, where the spectrum of white forces foretells it,
and for which it is kept."""


def with_memory(
    problem: SmoothingProblem, at: SmoothingState, seen: Survey
) -> tuple[SmoothingProblem, SmoothingState] | None:
    """(the problem with forces that have a memory, where its solution is looked for); None if nothing asks for one.

    Args:
        problem: The problem.
        at: Its solution.
        seen: What was seen of that.
    """
    force = _asking(problem)
    if force is None or at.status != Status.converged:
        return None
    asked = _asked(problem, at, seen)
    if asked.gain < BETTER:
        return None
    dof, power, time = problem.chart.dof, f"{force.name}.power", f"{force.name}.time_constant"
    found = problem.sizes.named(at.search.logs)
    recording, priors = problem.recording, problem.sizes.priors()
    new = {power: found[power] + np.log(asked.share), time: np.log(asked.time_constant)}
    if float(priors[power].sigma) == VAGUE:
        within = priors[power].lower, priors[power].upper
        begun = jnp.clip(jnp.exp(new[power]), *within)
        priors[power] = Unknown(begun, sigma=VAGUE, lower=within[0], upper=within[1], log=True)
    dt = np.asarray(recording.dt)
    # A longer one is not told from a random walk.
    lower, upper = np.min(dt), np.max(dt * np.asarray(recording.count))
    priors[time] = Unknown(asked.time_constant, sigma=VAGUE, lower=lower, upper=upper, log=True)
    _, sizes = freed(priors, lambda path: path[0].key)
    logs = jnp.concatenate([jnp.ravel(jnp.asarray((found | new)[name])) for name in sizes.names])

    wider = lambda leaf: jnp.pad(leaf, (*((0, 0),) * (leaf.ndim - 1), (0, dof)))
    longer = lambda force: eqx.tree_at(
        lambda f: f.time_constant, force, jnp.asarray(asked.time_constant), is_leaf=lambda leaf: leaf is None
    )
    inputs = tuple(longer(one) if one is force else one for one in problem.inputs)
    sigma = jnp.concatenate([recording.start_sigma, jnp.ones((*recording.start_sigma.shape[:-1], dof))], axis=-1)
    recording = recording._replace(starts=wider(recording.starts), start_sigma=sigma)
    of = lambda problem: (problem.inputs, problem.sizes, problem.recording)
    problem = eqx.tree_at(of, problem, (inputs, sizes, recording))
    where = lambda at: (at.x.steps, at.first, at.behind, at.starts.posed)
    near = eqx.tree_at(where, at, tuple(map(wider, where(at))))
    first = begun_at(problem, near)
    return problem, eqx.tree_at(lambda at: at.search, first, SizeSearch.of(sizes)._replace(logs=logs))


def _asking(problem: SmoothingProblem) -> Disturbance | None:
    """White forces that may get a memory: their power is being found."""
    alike = white(problem.inputs)
    if len(alike) != 1 or not isinstance(alike[0], Disturbance) or remembered(problem.inputs) is not None:
        return None
    sought = f"{alike[0].name}.power" in problem.sizes.names
    return alike[0] if sought and not alike[0].settled else None


def _asked(problem: SmoothingProblem, at: SmoothingState, seen: Survey) -> Asked:
    """What the white forces that were found ask for."""
    each = np.asarray if problem.several else lambda leaf: np.asarray(leaf)[None]
    rows = seen.factors[0]
    return memory_asked(
        *map(each, (rows.residual, rows.leverage)),
        jax.tree.map(each, at.look.system),
        jax.tree.map(each, seen.marginals),
        *(np.atleast_1d(np.asarray(leaf)) for leaf in (problem.recording.count, problem.recording.dt)),
        problem.chart.dof,
    )


def remembering(problem: SmoothingProblem, first: SmoothingState, *, enough: float = 0.0) -> Iterator[SmoothingState]:
    """What is reached after every round of a problem of `with_memory`."""
    with compiled_ahead(lambda: lowered_rounds(problem, first, enough=enough), problem):
        pass
    yield from to_the_end(problem, first, enough=enough)
