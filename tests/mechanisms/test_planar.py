"""Planar mechanisms: sizes, names, live parameters, invariances, special geometries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs import planar
from fgmbs.errors import ArgumentError
from fgmbs.io.planar.load import load, parse_mechanism
from fgmbs.io.texts import texts_of
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism


def mechanism_of(text):
    return PlanarMechanism.from_description(parse_mechanism(text))


@jax.jit
def drawn(mechanism):
    """Coordinates as drawn, with their constraints and Jacobian."""
    mechanism = mechanism.evaluated()
    q = mechanism.reference
    return q, mechanism.constraints(q, 0.0), mechanism.constraint_jacobian(q, 0.0)


def rank(matrix):
    return np.linalg.matrix_rank(matrix, tol=1e-9)


@pytest.mark.parametrize(
    "name, n, m, independent_rows",
    [
        ("fourbars1", 4, 3, 3),
        ("fourbars1-with-rel-angle", 5, 4, 4),
        ("pendulum1", 2, 1, 1),
        ("pick-and-place-robot", 22, 21, 20),
    ],
)
def test_reference_mechanisms(references, name, n, m, independent_rows):
    _, Phi, Phi_q = drawn(references[name])
    assert (references[name].n, len(references[name].constraint_names)) == (n, m)
    np.testing.assert_allclose(Phi, np.zeros(m), atol=1e-14)
    assert rank(Phi_q) == independent_rows


def test_fourbar_energy_and_inertia(references):
    """58.86 J in the drawn pose, and uniform rods."""
    mechanism = references["fourbars1"]
    np.testing.assert_allclose(mechanism.potential(mechanism.reference), 58.86, rtol=1e-14)
    rod = np.array([[2.0, 1.0], [1.0, 2.0]]) / 6
    M = np.diag([1.0, 4.0]) / 3 + 2 * rod
    np.testing.assert_allclose(mechanism.mass_matrix(mechanism.reference)[::2, ::2], M, atol=1e-14)


def test_names_are_those_of_the_file(everything):
    assert everything.coordinate_names[:4] == ("x_B", "y_B", "x2", "y2")
    assert everything.coordinate_names[-3:] == ("theta", "phi", "q14")
    assert everything.body_names == ("crank", "coupler", "body2", "body3")
    assert everything.point_names == ("A", "B", "point2", "D", "point4", "F", "G", "H")
    assert everything.body_points == ((0, 1), (1, 2, 4), (3, 2), (4, 5))
    assert everything.fixed_points == (0, 3)
    for name in (
        "distance of body 'crank'",
        "distance of body 2",
        "rigid point 4 of body 'coupler' (x)",
        "angle 'theta'",
        "fixed_slider 0",
        "rigid 3 (y)",
        "gear 'mesh'",
        "motion 'drive'",
    ):
        assert name in everything.constraint_names
    assert len(everything.constraint_names) == everything.m


def test_drawn_mechanism(everything):
    """What is measured in the drawing holds there; a given length, half a distance and a drive off its value do not."""
    Phi = everything.constraints(everything.reference, 0.0)
    off = {name for name, value in zip(everything.constraint_names, Phi, strict=True) if abs(value) > 1e-12}
    assert off == {"distance of body 'crank'", "distance 2", "motion 'drive'"}
    theta = everything.coordinate_names.index("theta")
    np.testing.assert_allclose(everything.reference[theta], np.arctan2(0.1, 1.2))
    velocities, given = everything.initial_velocities
    assert np.flatnonzero(given).tolist() == [0, theta]
    np.testing.assert_allclose(velocities[given], [-0.36, 2.0])


def test_point_positions_are_in_file_order(everything):
    drawn = [[0, 0], [1.2, 0.1], [1.8, 1.1], [3, 0], [1.9, 0.4], [2.5, -0.6], [1.5, 0.6], [0.6, 0.4]]
    np.testing.assert_allclose(everything.point_positions(everything.reference), drawn)


def answers(mechanism, q, dq, t):
    """Everything a mechanism is asked, as one vector."""
    return jnp.concatenate(
        [
            mechanism.constraints(q, t),
            mechanism.constraint_jacobian(q, t).ravel(),
            mechanism.constraint_rate(q, dq, t),
            mechanism.constraint_bias(q, dq, t),
            mechanism.mass_matrix(q).ravel(),
            mechanism.forces(q, dq, t),
            mechanism.potential(q)[None],
        ]
    )


ANSWERS = jax.jit(answers)


@jax.jit
def answers_jvp(mechanism, tangents, q, dq, t):
    def of_parameters(values):
        return answers(mechanism.with_parameters(values).evaluated(), q, dq, t)

    return jax.jvp(of_parameters, (mechanism.parameters,), (tangents,))[1]


def derivative_of_answers(mechanism, name, state):
    return answers_jvp(mechanism, {key: jnp.asarray(float(key == name)) for key in mechanism.parameters}, *state)


def test_evaluating_changes_nothing(everything, state):
    np.testing.assert_allclose(ANSWERS(everything.evaluated(), *state), ANSWERS(everything, *state), atol=1e-14)


def test_time_derivatives_of_the_constraints(everything, state):
    """Rate and bias along q(s) = q + s dq + s² ddq / 2, against differences of Φ."""
    q, dq, t = state
    mechanism = everything.evaluated()
    ddq = jnp.flip(dq)
    Phi = jax.jit(lambda s: mechanism.constraints(q + s * dq + s**2 * ddq / 2, t + s))
    h = 1e-4
    before, now, after = Phi(-h), Phi(0.0), Phi(h)
    m, n = len(now), mechanism.n
    _, Phi_q, rate, bias, _ = jnp.split(ANSWERS(mechanism, *state), np.cumsum([m, m * n, m, m]))
    np.testing.assert_allclose(rate, (after - before) / (2 * h), atol=1e-6)
    acceleration = Phi_q.reshape(m, n) @ ddq - bias
    # Truncation h² f'''' / 12 and round-off 4e-16 / h²
    np.testing.assert_allclose(acceleration, (after - 2 * now + before) / h**2, atol=1e-6)


def test_prescribed_motion_is_rheonomic(everything, state):
    q, dq, t = state
    k = everything.constraint_names.index("motion 'drive'")
    w = 3.6
    rate = everything.constraint_rate(q, dq, t)[k] - dq[everything.coordinate_names.index("theta")]
    np.testing.assert_allclose(rate, -0.3 * w * np.cos(w * t), rtol=1e-12)
    np.testing.assert_allclose(everything.constraint_bias(q, dq, t)[k], -0.3 * w**2 * np.sin(w * t), rtol=1e-12)


def test_parameters_are_the_independent_numbers(everything):
    assert {"L", "k", "F.x", "crank.mass", "body2.I0", "gravity.y", "mesh.ratio", "damper1.damping"} <= set(
        everything.parameters
    )
    assert not {"w", "B.x", "crank.length", "crank.I0", "tie.free_length"} & set(everything.parameters)
    leaves = jax.tree.leaves(everything)
    assert len(leaves) == len(everything.parameters)
    assert not any(leaf.weak_type for leaf in leaves)


def test_unknown_parameters_are_named_with_the_nearest(everything):
    with pytest.raises(ArgumentError, match=r"found 'crank.mas'; did you mean 'crank.mass'\?"):
        everything.with_parameters({"crank.mas": 1.0})
    with pytest.raises(ArgumentError, match="'crank.I0'"):  # an expression, which follows
        everything.with_parameters({"crank.I0": 1.0})
    with pytest.raises(ArgumentError, match=r"values\['L'\]: expected one number; .* \(3,\); use jax.vmap"):
        everything.with_parameters({"L": jnp.ones(3)})


def test_inertia_follows_mass_and_length(references):
    mechanism = references["fourbars1"]
    M = mechanism.mass_matrix(mechanism.reference)
    doubled = mechanism.with_parameters({f"body{k}.mass": 2.0 * m for k, m in enumerate([1.0, 2.0, 4.0])})
    np.testing.assert_allclose(doubled.mass_matrix(M[0]), 2 * M, rtol=1e-14)
    longer = mechanism.with_parameters({"L": 1.5})
    np.testing.assert_allclose(longer.point_positions(longer.reference)[2], [1.5, 3.0])
    np.testing.assert_allclose(longer.constraints(longer.reference, 0.0), 0.0, atol=1e-14)


@pytest.mark.parametrize("name", ["L", "crank.mass", "coupler.cog.y", "F.x", "gravity.x", "k", "mesh.ratio", "H.y"])
def test_answers_are_differentiable_in_parameters(everything, state, name):
    value = everything.parameters[name]
    derivative = derivative_of_answers(everything, name, state)
    h = 1e-5
    plus, minus = (ANSWERS(everything.with_parameters({name: value + s}), *state) for s in (h, -h))
    # Truncation h² f''' / 6 and round-off 1e-14 / h
    np.testing.assert_allclose(derivative, (plus - minus) / (2 * h), atol=1e-7)


def test_reverse_mode_through_parameters_equals_forward_mode(everything, state):

    @jax.jit
    def gradient_of(values, weights):
        return jax.grad(lambda values: weights @ answers(everything.with_parameters(values).evaluated(), *state))(
            values
        )

    weights = jnp.cos(jnp.arange(ANSWERS(everything, *state).size, dtype=float))
    gradient = gradient_of(everything.parameters, weights)
    for name in ("L", "coupler.cog.y"):
        np.testing.assert_allclose(gradient[name], weights @ derivative_of_answers(everything, name, state), rtol=1e-10)


def test_batch_of_parameters_equals_loop(everything, state):
    lengths, masses = jnp.linspace(1.0, 1.2, 8), jnp.linspace(0.5, 4.0, 8)

    def member(L, mass):
        return answers(everything.with_parameters({"L": L, "crank.mass": mass}).evaluated(), *state)

    batch = jax.jit(jax.vmap(member))(lengths, masses)
    for values, L, mass in zip(batch, lengths, masses, strict=True):
        one = ANSWERS(everything.with_parameters({"L": L, "crank.mass": mass}), *state)
        np.testing.assert_allclose(values, one, atol=1e-12)


def test_other_numbers_and_equal_descriptions_do_not_compile_again(references, data_dir):
    traces = []

    @jax.jit
    def Phi(mechanism, q, t):
        traces.append(1)
        return mechanism.constraints(q, t)

    mechanism = references["fourbars1"]
    again = PlanarMechanism.from_description(mechanism.description.model_copy(deep=True))
    for m in (mechanism, mechanism.with_parameters({"L": 1.3}), mechanism.with_parameters({"L": 2}), again):
        Phi(m, m.reference, jnp.asarray(0.5))
    assert len(traces) == 1
    Phi(mechanism.evaluated(), mechanism.reference, jnp.asarray(0.5))
    Phi(again.with_parameters({"xb": 3.5}).evaluated(), mechanism.reference, jnp.asarray(0.5))
    assert len(traces) == 2


def test_extra_points_of_a_body_are_free_of_mirror_images_and_need_no_triangle():
    mechanism = mechanism_of("""
        points:
          - {x: 0, y: 0, fixed: true}
          - {x: 1, y: 0}
          - {x: 2, y: 0}
          - {x: 0.5, y: 0.7}
        planar_bodies:
          - {points: [0, 1, 2, 3], mass: 1, I0: 1, cog: [0.5, 0]}
    """)
    q, _, Phi_q = drawn(mechanism)
    assert rank(Phi_q) == len(Phi_q) == 5  # one degree of freedom in six coordinates
    mirrored = q * jnp.array([1.0, -1.0] * 3)
    np.testing.assert_allclose(mechanism.constraints(mirrored, 0.0), [0, 0, 0, 0, -1.4], atol=1e-14)


def test_two_bodies_on_the_same_points_repeat_a_row_and_add_their_masses():
    text = """
        points: [{x: 0, y: 0, fixed: true}, {x: 1, y: 0}]
        planar_bodies:
          - {points: [0, 1], length: auto, mass: 1, I0: 0.4, cog: [0.5, 0]}
          - {points: [1, 0], length: LENGTH, mass: 2, I0: 0.7, cog: [0.5, 0]}
    """
    both = mechanism_of(text.replace("LENGTH", "auto")).evaluated()
    _, _, Phi_q = drawn(both)
    assert (len(Phi_q), rank(Phi_q)) == (2, 1)
    # The second is seen from its other end: I = I0 − 2 m cog L + m L².
    np.testing.assert_allclose(both.mass_matrix(both.reference), (0.4 + 0.7) * np.eye(2), rtol=1e-14)
    contradictory = mechanism_of(text.replace("LENGTH", "1.1"))
    np.testing.assert_allclose(contradictory.constraints(both.reference, 0.0), [0.0, 1 - 1.1**2], atol=1e-14)


def test_parts_of_the_ground_add_no_rows():
    mechanism = mechanism_of("""
        points: [{x: 0, y: 0, fixed: true}, {x: 1, y: 0, fixed: true}, {x: 0.5, y: 0.5}, {x: 0, y: 1, fixed: true}]
        planar_bodies:
          - {points: [0, 1, 2, 3], mass: 1, I0: 1, cog: [0.5, 0.2]}
    """)
    assert mechanism.constraint_names == ("rigid point 2 of body 0 (x)", "rigid point 2 of body 0 (y)")
    np.testing.assert_allclose(mechanism.mass_matrix(mechanism.reference), 0.0)
    np.testing.assert_allclose(mechanism.potential(mechanism.reference), 0.2 * 9.81)


def test_mechanism_without_constraints():
    mechanism = mechanism_of("""
        points: [{x: 0, y: 0}, {x: 0, y: 0, fixed: true}]
        planar_bodies: []
        springs: [{points: [1, 0], stiffness: 4, free_length: 0}]
    """)
    assert mechanism.m == 0
    assert mechanism.constraint_jacobian(mechanism.reference, 0.0).shape == (0, 2)
    np.testing.assert_allclose(mechanism.forces(jnp.array([0.5, 0.0]), jnp.zeros(2), 0.0), [-2.0, 0.0])


@pytest.mark.parametrize("bend", (0.03, -0.03, 3.0, -3.0))
@pytest.mark.parametrize("turned", (0.0, 1.5, 3.1, -3.1))
def test_the_angle_between_links_is_drawn_within_half_a_turn(turned, bend):
    """Also where the angle of one of the links is just above −π, and that of the other just below π."""
    a, b = (np.array([np.cos(angle), np.sin(angle)]) for angle in (turned, turned + bend))
    mechanism = planar.mechanism(
        *(
            planar.point("O", 0, 0, fixed=True),
            planar.point("A", *map(float, a)),
            planar.point("B", *map(float, a + b)),
        ),
        planar.body("rod", "O", "A", mass=1.0, I0=1.0, cog=(0.5, 0.0)),
        planar.body("arm", "A", "B", mass=1.0, I0=1.0, cog=(0.5, 0.0)),
        planar.relative_angle("phi", ("O", "A"), ("A", "B")),
    )
    assert float(mechanism.reference[4]) == pytest.approx(bend, abs=1e-12)


def test_relative_angle_is_the_difference_of_absolute_angles(everything):
    q = everything.reference
    p = np.asarray(everything.point_positions(q))
    theta, phi = q[-3], q[-2]
    np.testing.assert_allclose(np.arctan2(*(p[2] - p[1])[::-1]), theta + phi, atol=1e-14)


def test_units_points_and_effects_are_those_of_the_file():
    mechanism = mechanism_of("""
      name: arm
      points: [{name: A, x: 0, y: 0, fixed: true}, {x: 1, y: 0}, {name: P, x: 1, y: 1}]
      planar_bodies:
        - {name: rod, points: [A, 1], length: 1, mass: 1, I0: 1/3, cog: [0.5, 0]}
        - {name: tool, points: [1, P], length: 1, mass: 1, I0: 1/3, cog: [0.5, 0]}
      relative_coordinates: [{name: theta, type: RelativeAngleAbsoluteDOF, points: [A, 1]}]
      actuators: [{name: a, angle: theta}, {name: b, points: [A, P]}, {name: c, coordinate: x_P}, {name: d, body: rod}]
    """)
    assert mechanism.coordinate_units == ("m", "m", "m", "m", "rad")
    assert mechanism.velocity_units == ("m/s", "m/s", "m/s", "m/s", "rad/s")
    assert mechanism.actuator_units == ("N m", "N", "N", "N m")
    effects = ("torque on theta", "force between A and P", "force on x_P", "torque on rod")
    assert mechanism.actuator_effects == effects
    names = mechanism.coordinate_names
    assert [names[i] for i in mechanism.point_coordinates("P")] == ["x_P", "y_P"]
    assert mechanism.point_coordinates("1") == (0, 1) and mechanism.point_coordinates("2") == (2, 3)
    for point, text in (("A", "the point 'A' is fixed to the ground"), ("Q", "there is no point 'Q'")):
        with pytest.raises(ArgumentError, match=f"point: {text}"):
            mechanism.point_coordinates(point)
    assert (
        mechanism.title == "arm" and mechanism_of(texts_of(mechanism)["mechanism"]).description == mechanism.description
    )
    assert mechanism.physical_parameters() == mechanism.parameters


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("crank.mass", -1.0, "values['crank.mass']: expected a positive number; found -1"),
        ("L_crank", -1.0, "with the values of 'L_crank', expected of 'crank.length' a positive number; found -1"),
        ("coupler.cog.y", 5.0, "expected of 'coupler.I0' at least mass*|cog|^2 = 52 kg·m² about the first point"),
    ],
)
def test_other_parameters_are_checked_as_those_of_a_file(configs, name, value, expected):
    fourbar = load(configs / "mechanisms" / "fourbar.yaml")
    with pytest.raises(ArgumentError) as refused:
        fourbar.with_parameters({name: value})
    assert expected in str(refused.value)
    traced = jax.jit(lambda value: fourbar.with_parameters({name: value}).mass_matrix(fourbar.reference))(value)
    assert np.isfinite(traced).all()  # nobody can refuse it there
