"""One step of a simulation, and its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.dynamics.forcing import Forcing
from fgmbs.dynamics.stepping import Known, Stepper
from fgmbs.dynamics.transitions import TRANSITIONS
from fgmbs.kinematics.closure import Closure
from fgmbs.status import Status

DT = 2e-2


@pytest.fixture(scope="module")
def pendulum(configs):
    return fgmbs.load(configs / "mechanisms" / "pendulum.yaml").evaluated()


def stepper_of(mechanism, rule, forced):
    forcing = Forcing((), ("y_tip",) if forced else (), jnp.zeros(0), None)
    return Stepper(mechanism, TRANSITIONS[rule], forcing, None, Closure())


def after(stepper, x, commands):
    """(q, dq, ddq) behind one step from a state, through a first one that makes it one of the mechanism."""
    n = stepper.mechanism.n
    points = len(stepper.rule.inner_points) + 2
    shares = np.linspace(0, 1, points)[:, None]
    known = Known(commands[0] + shares * (commands[1] - commands[0]), jnp.zeros((points, 0)))
    first = stepper.start(x[:n], x[n:], 0.0, known.at(0))
    step, ended = stepper.step(first, stepper.predict(first, jnp.zeros_like(first.ddq), DT), DT, DT, known)
    return step, ended


@pytest.mark.parametrize("rule", ["trapezoidal", "hermite_simpson"])
@pytest.mark.parametrize("forced", [True, False])
def test_derivatives_of_a_step_are_those_of_differences(pendulum, rule, forced):
    """By gravity and mass, and by the force; the state at the start stays on the constraints."""
    commands = jnp.array([[3.0], [-4.0]]) if forced else jnp.zeros((2, 0))
    x = jnp.concatenate([pendulum.reference, jnp.zeros(pendulum.nv)])
    numbers = {name: pendulum.parameters[name] for name in ("gravity.y", "m")}

    @jax.jit
    def of(change):
        changed = pendulum.with_parameters({name: numbers[name] * (1 + change[0]) for name in numbers})
        step, ended = after(stepper_of(changed.evaluated(), rule, forced), x, commands * (1 + change[1]))
        return jnp.concatenate(step), ended.status

    h, zero = 1e-6, jnp.zeros(2)
    assert Status.converged == of(zero)[1]
    slopes = jax.jit(jax.jacfwd(lambda change: of(change)[0]))(zero)
    for k in range(2):
        up, down = (of(zero.at[k].set(sign * h))[0] for sign in (1, -1))
        np.testing.assert_allclose(slopes[:, k], (up - down) / (2 * h), rtol=1e-6, atol=1e-8)
    assert bool(jnp.any(slopes[:, 1] != 0)) == forced


def test_a_derivative_of_a_step_takes_one_look_at_the_mechanism(pendulum, monkeypatch):
    """At its start, between, and at its end: compiling that takes long."""
    looks, motion = [], Stepper.motion
    monkeypatch.setattr(Stepper, "motion", lambda *arguments: looks.append(1) or motion(*arguments))
    x = jnp.concatenate([pendulum.reference, jnp.zeros(pendulum.nv)])
    stepper, commands = stepper_of(pendulum, "hermite_simpson", True), jnp.array([[3.0], [-4.0]])
    step = lambda commands: after(stepper, x, commands)[0].q
    jax.make_jaxpr(step)(commands)
    alone = len(looks)
    jax.make_jaxpr(lambda c: jax.jvp(step, (c,), (c,)))(commands)
    assert alone > 0 and len(looks) - 2 * alone == 1
