"""Every method of factorization, also that of the information itself, and all that it answers."""

import jax

from fgmbs.linear import METHODS, factorize_matrix


def factorize_information(system, damping_steps, damping_globals):
    return factorize_matrix(system.information().add_diagonal(damping_steps, damping_globals))


ANSWERS = {}
ALL = METHODS | {"matrix": factorize_information}


def answers(method):
    """All answers of a method, jitted once."""

    def answer(system, damping, b):
        factorization = ALL[method](system, *damping)
        marginals = factorization.marginals()
        return {
            "minimizer": factorization.minimizer(),
            "solution": factorization.solve(*b),
            "log_determinant": factorization.log_determinant(),
            "finite": factorization.finite,
            "marginals": marginals,
            "wide": marginals.with_globals(),
        }

    return ANSWERS.setdefault(method, jax.jit(answer))
