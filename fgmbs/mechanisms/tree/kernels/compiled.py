"""The kernels as programs of their own, for calls from outside of compiled code: operation by operation each would take
seconds."""

from fgmbs.compiled.program import FULLY, program
from fgmbs.mechanisms.tree.kernels import closures, frames, inverse, motion, rules
from fgmbs.mechanisms.tree.kernels import regressor as regressors
from fgmbs.mechanisms.tree.kernels import transmitted as transmission
from fgmbs.mechanisms.tree.kernels.numbers import tree_numbers
from fgmbs.mechanisms.tree.single import put

placed = program(motion.placed, **FULLY)
frame_motion = program(frames.frame_motion, **FULLY)
mass_matrix = program(inverse.mass_matrix, **FULLY)
jacobians = program(inverse.jacobians, **FULLY)
closure_rows = program(closures.rows, **FULLY)
closure_jacobian = program(closures.jacobian, **FULLY)
closure_bias = program(closures.bias, **FULLY)
regressor = program(regressors.regressor, **FULLY)
transmitted = program(transmission.transmitted, **FULLY)
forward_jacobians = program(rules.forward_jacobians, **FULLY)


@program
def numbers(topology, parameters, single):
    return tree_numbers(topology, put(topology, parameters, single))


@program(**FULLY)
def inverse_dynamics(topology, numbers, q, dq, ddq, wrenches):
    return rules.inverse_dynamics(topology, numbers, q, dq, ddq, wrenches)


@program(**FULLY)
def forward_dynamics(topology, numbers, q, dq, tau, wrenches):
    return rules.forward_dynamics(topology, numbers, q, dq, tau, wrenches)
