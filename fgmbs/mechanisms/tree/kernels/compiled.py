"""The kernels as programs of their own, for calls from outside of compiled code: operation by operation each would take
seconds."""

from fgmbs.compiled.program import program
from fgmbs.mechanisms.tree.kernels import closures, inverse, motion, rules
from fgmbs.mechanisms.tree.kernels import regressor as regressors
from fgmbs.mechanisms.tree.kernels import transmitted as transmission
from fgmbs.mechanisms.tree.kernels.numbers import tree_numbers
from fgmbs.mechanisms.tree.single import put

placed = program(motion.placed)
mass_matrix = program(inverse.mass_matrix)
jacobians = program(inverse.jacobians)
closure_rows = program(closures.rows)
closure_jacobian = program(closures.jacobian)
closure_bias = program(closures.bias)
regressor = program(regressors.regressor)
transmitted = program(transmission.transmitted)
forward_jacobians = program(rules.forward_jacobians)


@program
def numbers(topology, parameters, single):
    return tree_numbers(topology, put(topology, parameters, single))


@program
def inverse_dynamics(topology, numbers, q, dq, ddq, wrenches):
    return rules.inverse_dynamics(topology, numbers, q, dq, ddq, wrenches)


@program
def forward_dynamics(topology, numbers, q, dq, tau, wrenches):
    return rules.forward_dynamics(topology, numbers, q, dq, tau, wrenches)
