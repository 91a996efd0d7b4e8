"""Simulation along the constraints: the graph of forward dynamics, each step eliminated in its turn."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from fgmbs.compiled.one_kernel import one_kernel
from fgmbs.compiled.program import ONCE, program
from fgmbs.dynamics.drive import Drive
from fgmbs.dynamics.forcing import Forcing
from fgmbs.dynamics.stepping import Known, Step, Stepper
from fgmbs.dynamics.transitions import AbstractTransition
from fgmbs.kinematics.base import prepared
from fgmbs.kinematics.closure import Closure
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.driven.motors import Motor
from fgmbs.status import Status
from fgmbs.typing import Coordinates, Scalar, Velocities

_ASIDE = 1e-6
"""How far inside an interval its ends are looked at, relative to it: forces may jump at a step."""
_CHUNK = 1024
"""Steps between two looks at the keyboard and the progress bar; the lengths of shorter runs are powers of two."""


class Outside(eqx.Module):
    """What is known of forces and motion, as functions of time."""

    commanded: tuple[str, ...] = eqx.field(static=True, default=())
    """Actuator or velocity that each command acts on, …"""
    commands: tuple[Callable, ...] = ()
    """… and the commands [N, N·m]."""
    drive: Drive | None = None
    motion: Callable | None = None
    """Motion of the coordinates that the drive follows."""

    @property
    def forcing(self) -> Forcing:
        """Where the commands act."""
        return Forcing((), self.commanded, jnp.zeros(0))

    def known(self, t: Float[Array, "*times"]) -> Known:
        """Commands and known accelerations."""
        t = jnp.asarray(t)
        forces = [jnp.asarray(jax.vmap(command)(t.ravel())) for command in self.commands]
        commands = jnp.stack(forces, -1) if forces else jnp.zeros((t.size, 0), t.dtype)
        ddy = jnp.zeros((t.size, 0), t.dtype)
        if self.motion is not None:
            one = jnp.ones((), t.dtype)

            def rate(t):
                return jax.jvp(self.motion, (t,), (one,))[1]

            ddy = jax.vmap(lambda t: jax.jvp(rate, (t,), (one,))[1])(t.ravel())
        return Known(commands.reshape(*t.shape, -1), ddy.reshape(*t.shape, -1))

    def forces(
        self, motors: Sequence[Motor], found: Float[Array, "steps nu"], commands: Float[Array, "steps nc"]
    ) -> Float[Array, "steps motors"]:
        """Forces of all motors in another order: those of the drive, that were found, and the commands [N, N·m]."""
        names = (*(() if self.drive is None else self.drive.motors), *self.commanded)
        both = jnp.concatenate([found, commands], axis=1)
        return both[:, jnp.asarray([names.index(motor.name) for motor in motors], int)]

    def stepper(self, mechanism: AbstractMechanism, rule: AbstractTransition) -> Stepper:
        """What takes the mechanism from step to step."""
        closure = Closure() if self.drive is None else Closure(self.drive.followed, self.motion)
        return Stepper(mechanism, rule, self.forcing, self.drive, closure)


class Marched(NamedTuple):
    """Steps and how they were found."""

    steps: Step
    iterations: Int[Array, " steps"]
    status: Status


Advance: TypeAlias = Callable[[PyTree, Int[Array, ""], int, Int[Array, ""] | None], tuple[PyTree, PyTree]]
"""(State, steps done, length, how many of these are to be taken, all by default) → (state, outputs) of the steps that
follow."""
Run: TypeAlias = Callable[..., tuple[PyTree, bool]]
"""(Advance, state, steps, outputs of steps that are there already) → (outputs of all, cut short)."""


def at_once(advance: Advance, state: PyTree, steps: int, *first: PyTree) -> tuple[PyTree, bool]:
    """(Outputs of all steps, False): all in one go, as part of any program."""
    _, out = advance(state, jnp.asarray(0), steps, None)
    first = [jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], one) for one in first]
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *first, out), False


class InChunks(NamedTuple):
    """Steps in chunks: between them progress is reported, and Ctrl-C ends them."""

    progress: Callable[[int, int], None] | None
    """Called with (steps done, steps in all)."""

    def __call__(self, advance: Advance, state: PyTree, steps: int, *first: PyTree) -> tuple[PyTree, bool]:
        """(Outputs of all steps, whether Ctrl-C has cut them short), which it cannot before the first chunk is done.

        Chunks are of one length, whatever the number of steps: one program serves all.
        """
        done = [jax.tree.map(lambda leaf: np.asarray(leaf)[None], one) for one in first]
        ahead, interrupted = len(first), False
        try:
            for begin in range(0, steps, _CHUNK):
                count = min(_CHUNK, steps - begin)
                state, out = advance(state, np.asarray(begin), _CHUNK, np.asarray(count))
                done.append(jax.block_until_ready(out))
                if self.progress is not None:
                    self.progress(begin + count + ahead, steps + ahead)
        except KeyboardInterrupt:
            if len(done) == ahead:
                raise
            interrupted = True
        return jax.tree.map(lambda *parts: np.concatenate(parts)[: steps + ahead], *done), interrupted


def march(
    mechanism: AbstractMechanism,
    rule: AbstractTransition,
    outside: Outside,
    q: Coordinates,
    dq: Velocities,
    t0: Scalar,
    dt: Scalar,
    steps: int,
    run: Run = at_once,
) -> tuple[Marched, bool]:
    """(All steps after the first, whether Ctrl-C has cut them short); the first one is in front.

    Args:
        mechanism: The mechanism.
        rule: The integration rule.
        outside: What is known.
        q: Assembled start [m, rad].
        dq: Its velocities [m/s, rad/s].
        t0: Time of the start [s].
        dt: Time step [s].
        steps: Number of steps to take.
        run: `at_once`, or `InChunks`.
    """

    def advance(state, begin, length, count):
        return _advance(mechanism, rule, outside, state, t0, dt, begin, length, count)

    state = _begin(mechanism, rule, outside, q, dq, t0, dt)
    return run(advance, state, steps, Marched(state[0], np.asarray(0), Status.converged))


def lowered_march(mechanism, rule, outside: Outside, q, dq, t0, dt) -> Callable[[], Any]:
    """The program of `march` in chunks, before there is a first step."""
    state = _begin.like(mechanism, rule, outside, q, dq, t0, dt)
    return _advance.ahead(mechanism, rule, outside, state, t0, dt, np.asarray(0), _CHUNK, np.asarray(0))


def unmarched(q: Coordinates, dq: Velocities, status: Status, steps: int) -> Marched:
    """What has the shapes of so many steps, before there are any."""
    one = Marched(Step(q, dq, dq), np.zeros((), int), status)
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (steps, *np.shape(leaf))), one)


@program(**ONCE)
def _begin(mechanism, rule, outside: Outside, q, dq, t0, dt):
    """(first step, change of the accelerations): the state of `_advance`."""
    stepper = outside.stepper(prepared(mechanism), rule)
    return stepper.start(q, dq, t0, outside.known(t0 + _aside(t0, dt) * dt)), jnp.zeros_like(dq)


@program
def _advance(mechanism, rule, outside: Outside, state, t0, dt, begin, length: int, count):
    """The state moved on by some steps, and these."""
    return _take(prepared(mechanism), rule, outside, state, t0, dt, begin, length, count)


@one_kernel
def _take(mechanism, rule, outside: Outside, state, t0, dt, begin, length: int, count):
    stepper = outside.stepper(mechanism, rule)

    def advance(state, k):
        (start, slope), t = state, t0 + (begin + k) * dt
        aside = _aside(t, dt)
        fractions = jnp.stack([aside, *(jnp.asarray(s, dt.dtype) for s in rule.inner_points), 1 - aside])
        known = outside.known(t + fractions * dt)
        step, ended = stepper.step(start, stepper.predict(start, slope, dt), t + dt, dt, known)
        return (step, step.ddq - start.ddq), Marched(step, *ended)

    return counted_scan(advance, state, length, count)


def _aside(t: Scalar, dt: Scalar) -> Scalar:
    """How far from a step, relative to dt, what is known is looked up: at least a few units in the last place of t."""
    return jnp.maximum(_ASIDE, 4 * jnp.finfo(dt.dtype).eps * jnp.abs(t) / dt)


def counted_scan(
    step: Callable[[PyTree, Int[Array, ""]], tuple[PyTree, PyTree]], state: PyTree, length: int, count
) -> tuple[PyTree, PyTree]:
    """`jax.lax.scan` over 0 … length − 1, of which the first `count` steps are taken; all, if it is None.

    Outputs of the others are 0. With a count it has no reverse derivative.
    """
    if count is None:
        return jax.lax.scan(step, state, jnp.arange(length))

    def advance(k, carry):
        state, out = carry
        state, now = step(state, k)
        return state, jax.tree.map(lambda all, one: jax.lax.dynamic_update_index_in_dim(all, one, k, 0), out, now)

    one = jax.eval_shape(step, state, jnp.asarray(0))[1]
    out = jax.tree.map(lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype), one)
    return jax.lax.fori_loop(0, count, advance, (state, out))
