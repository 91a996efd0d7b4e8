"""The derivative rule of every constraint against AD of the plain function and against finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jax.test_util import check_grads

from fgmbs.mechanisms.planar.constraints.absolute_angle import absolute_angle
from fgmbs.mechanisms.planar.constraints.distance import squared_distance
from fgmbs.mechanisms.planar.constraints.fixed_slider import fixed_slider
from fgmbs.mechanisms.planar.constraints.gear import gear
from fgmbs.mechanisms.planar.constraints.mobile_slider import mobile_slider
from fgmbs.mechanisms.planar.constraints.prescribed_motion import prescribed_motion
from fgmbs.mechanisms.planar.constraints.relative_angle import relative_angle
from fgmbs.mechanisms.planar.constraints.rigid_point import rigid_point


def plain_fixed_slider(p, line):
    return mobile_slider.fun(p, line[0], line[1])


# constraint: (with its rule, plain, shapes of the arguments, arguments where its Jacobian loses rank or AD may trip)
CONSTRAINTS = {
    "distance": (squared_distance, squared_distance.fun, [(2,), (2,), ()], [[1, 2], [1, 2], 0]),
    "fixed_slider": (fixed_slider, plain_fixed_slider, [(2,), (2, 2)], [[1, 2], [[1, 2], [1, 2]]]),
    "mobile_slider": (mobile_slider, mobile_slider.fun, [(2,)] * 3, [[1, 2], [1, 2], [1, 2]]),
    "absolute_angle": (absolute_angle, absolute_angle.fun, [(2,), (2,), (), ()], [[1, 2], [1, 2], np.pi / 2, 1]),
    "relative_angle": (
        relative_angle,
        relative_angle.fun,
        [(2,)] * 4 + [()] * 2,
        [[0, 0], [0, 0], [0, 0], [1, 0], np.pi, 1],
    ),
    "rigid_point": (rigid_point, rigid_point.fun, [(2,)] * 4, [[1, 2], [1, 2], [1, 2], [0, 0]]),
    "gear": (gear, gear.fun, [()] * 4, [0, 0, 0, 0]),
    "prescribed_motion": (prescribed_motion, prescribed_motion.fun, [()] * 2, [0, 0]),
}
each_constraint = pytest.mark.parametrize("name", CONSTRAINTS)


def arguments(shapes, seed=0):
    generator = np.random.default_rng(seed)
    # Lengths stay away from zero.
    return tuple(jnp.asarray(generator.uniform(0.5, 2.0, shape)) for shape in shapes)


@each_constraint
def test_rule_equals_ad_of_the_plain_function(name):
    """First, second and (along one direction) third derivatives, in forward and reverse mode."""
    rule, plain, shapes, _ = CONSTRAINTS[name]
    flat, unflatten = ravel_pytree(arguments(shapes))

    def of_flat(function):
        return lambda x: function(*unflatten(x))

    @jax.jit
    def derivatives(x):
        f, g, fwd, rev = of_flat(rule), of_flat(plain), jax.jacfwd, jax.jacrev
        direction = jnp.cos(x)
        third = [jax.jvp(hessian, (x,), (direction,))[1] for hessian in (fwd(rev(f)), fwd(fwd(g)))]
        return [
            (f(x), g(x)),
            (fwd(f)(x), fwd(g)(x)),
            (rev(f)(x), fwd(g)(x)),
            *((second(first(f))(x), fwd(fwd(g))(x)) for second, first in [(fwd, fwd), (rev, fwd), (fwd, rev)]),
            third,
        ]

    for value, reference in derivatives(flat):
        np.testing.assert_allclose(value, reference, rtol=1e-12, atol=1e-12)


@each_constraint
def test_rule_equals_finite_differences(name):
    rule, plain, shapes, _ = CONSTRAINTS[name]
    args = arguments(shapes, seed=1)
    flat, unflatten = ravel_pytree(args)

    def differences(function, h):
        steps = h * np.eye(flat.size)
        columns = [np.asarray(function(flat + e) - function(flat - e)) / (2 * h) for e in steps]
        return np.stack(columns, axis=-1)

    jacobian = jax.jit(jax.jacfwd(lambda x: rule(*unflatten(x))))
    hessian = jax.jit(jax.jacfwd(lambda x: jacobian(x)))
    # Truncation h² and round-off 1e-16 / h are both near 1e-10.
    np.testing.assert_allclose(jacobian(flat), differences(lambda x: plain(*unflatten(x)), 1e-5), atol=2e-9)
    np.testing.assert_allclose(hessian(flat), differences(jacobian, 1e-5), atol=2e-9)


@each_constraint
@pytest.mark.parametrize("singular", [False, True])
def test_gradients_are_consistent(name, singular):
    rule, _, shapes, at_singular = CONSTRAINTS[name]
    args = tuple(jnp.asarray(x, dtype=float) for x in at_singular) if singular else arguments(shapes, seed=2)
    # `check_grads` steps in numpy arrays.
    check_grads(lambda *args: rule(*map(jnp.asarray, args)), args, order=2, modes=("fwd", "rev"))


@each_constraint
def test_vmap_equals_loop(name):
    rule, _, shapes, _ = CONSTRAINTS[name]
    batch = [arguments(shapes, seed) for seed in range(4)]
    stacked = tuple(jnp.stack(column) for column in zip(*batch, strict=True))

    def both(*args):
        return rule(*args), *jax.jacrev(rule, argnums=tuple(range(len(shapes))))(*args)

    loop, batched = jax.jit(both), jax.jit(jax.vmap(both))(*stacked)
    for i, args in enumerate(batch):
        for all_of_them, one in zip(batched, loop(*args), strict=True):
            np.testing.assert_allclose(all_of_them[i], one, atol=1e-15)
