"""The kernels as programs of their own, for calls from outside of compiled code: operation by operation each would take
seconds."""

from fgmbs.compiled.program import program
from fgmbs.mechanisms.tree.kernels import closures, inverse, motion, rules
from fgmbs.mechanisms.tree.kernels import regressor as regressors
from fgmbs.mechanisms.tree.kernels import transmitted as transmission
from fgmbs.mechanisms.tree.kernels.numbers import tree_numbers
from fgmbs.mechanisms.tree.single import put

_FULLY = {"xla_backend_optimization_level": 3}
"""They are called for thousands of states at once."""

placed = program(motion.placed, **_FULLY)
mass_matrix = program(inverse.mass_matrix, **_FULLY)
jacobians = program(inverse.jacobians, **_FULLY)
closure_rows = program(closures.rows, **_FULLY)
closure_jacobian = program(closures.jacobian, **_FULLY)
closure_bias = program(closures.bias, **_FULLY)
regressor = program(regressors.regressor, **_FULLY)
transmitted = program(transmission.transmitted, **_FULLY)
forward_jacobians = program(rules.forward_jacobians, **_FULLY)


@program
def numbers(topology, parameters, single):
    return tree_numbers(topology, put(topology, parameters, single))


@program(**_FULLY)
def inverse_dynamics(topology, numbers, q, dq, ddq, wrenches):
    return rules.inverse_dynamics(topology, numbers, q, dq, ddq, wrenches)


@program(**_FULLY)
def forward_dynamics(topology, numbers, q, dq, tau, wrenches):
    return rules.forward_dynamics(topology, numbers, q, dq, tau, wrenches)
