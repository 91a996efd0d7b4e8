"""Inverse dynamics next to poses where what is followed hardly tells how the mechanism moves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs


@pytest.mark.parametrize("near", [1e-2, 1e-4, 1e-6])
def test_next_to_a_dead_centre_the_motion_is_exact_as_far_as_its_place_is(configs, tmp_path, near):
    """The slide of a slider-crank is followed from where the crank is nearly in line with its rod."""
    text = (configs / "mechanisms" / "slider_crank.yaml").read_text().replace("deg2rad(60)", repr(near))
    file = tmp_path / "slider_crank.yaml"
    file.write_text(text + "\nactuators:\n  - {name: motor, coordinate: theta}\n")
    mechanism, (r, rod), rate = fgmbs.load(file), (0.1, 0.3), 100.0
    t = 1e-3 * np.arange(5)
    theta = near + rate * t

    def slide(theta):
        return r * jnp.cos(theta) + jnp.sqrt(rod**2 - (r * jnp.sin(theta)) ** 2)

    slope = jax.vmap(jax.grad(slide))(theta)
    bend = jax.vmap(jax.grad(jax.grad(slide)))(theta)
    found = fgmbs.inverse_dynamics(mechanism, t, {"x_wrist": (jax.vmap(slide)(theta), slope * rate, bend * rate**2)})
    crank = mechanism.coordinate_names.index("theta")
    # The place of the slide tells that of the crank to ε/near, and so its velocity.
    lost = max(1e-12, 1e-15 / near**2)
    np.testing.assert_allclose(found.q[:, crank], theta, rtol=lost)
    np.testing.assert_allclose(found.dq[:, crank], rate, rtol=100 * lost)
