"""What is known of parameters where the data leave combinations open: no more than their priors say."""

from fractions import Fraction

import numpy as np
import pytest

from fgmbs.problems.identify.identifiability import covariance_with_priors, identifiability, known_alone


def exact_inverse(matrix):
    """By elimination, in fractions."""
    n = len(matrix)
    rows = [[*map(Fraction, row), *(Fraction(int(i == k)) for i in range(n))] for k, row in enumerate(matrix)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k] != 0)
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        rows = [
            row if i == k else [x - row[k] * y for x, y in zip(row, rows[k], strict=True)] for i, row in enumerate(rows)
        ]
    return np.array([[float(x) for x in row[n:]] for row in rows])


@pytest.mark.parametrize("prior", [(1.0, 2.0, 4.0), (1e-12, 1e-12, 1e-12), (1e-12, 1.0, 1e-12), (1e-20, 1e-12, 1e-3)])
def test_it_is_the_inverse_of_both_together(prior):
    """Two numbers of which the data tell the sum, and one that they tell alone."""
    data = np.array([[1.0, 1.0, 0.25], [1.0, 1.0, 0.25], [0.25, 0.25, 1.0]])
    own = zip(data.tolist(), prior, strict=True)
    exact = exact_inverse(
        [[Fraction(x) + Fraction(p) * (i == j) for j, x in enumerate(row)] for i, (row, p) in enumerate(own)]
    )
    found = covariance_with_priors(data, np.diag(prior))
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-9 * np.abs(exact).max())
    np.testing.assert_allclose(np.sqrt(np.diag(found)), np.sqrt(np.diag(exact)), rtol=1e-6)


def test_rounding_of_the_data_tells_nothing():
    """Where the last digits of an information look like one of a combination that is open."""
    data = np.array([[1.0, 1.0 - 1e-14], [1.0 - 1e-14, 1.0]])
    found = covariance_with_priors(data, 1e-12 * np.eye(2), rounding=1e-12)
    np.testing.assert_allclose(found, 5e11 * np.array([[1, -1], [-1, 1]]), rtol=1e-3)


def test_where_nothing_is_left_to_be_known_there_is_no_covariance():
    assert covariance_with_priors(np.zeros((0, 0)), np.zeros((0, 0))).shape == (0, 0)


def test_a_number_that_is_not_read_is_known_by_its_prior():
    prior, influence = np.array([3.0, 1e6]), np.array([0.0, 10.0])
    np.testing.assert_array_equal(known_alone(prior, influence), [3.0, 0.1])
    told = identifiability(
        ("idle", "mass"), np.diag([1 / 9, 100.0]), prior, influence, np.array([1.0, 0.1]), np.zeros(2, bool), np.ones(2)
    )
    assert told.without_influence == ("idle",) and told.determined == ("mass",) and told.rank == 1


def test_a_narrow_prior_leaves_the_others_as_they_are():
    """Numbers that readings tell weakly, beside a zero that is known to 1e-9."""
    J = np.array([[1.0, 1.0, 0.0], [1.0, 1.001, 0.0], [0.0, 0.0, 1e4]])
    prior, names = np.array([1e6, 1e6, 1e-9]), ("mass", "damping", "zero")
    information = J.T @ J + np.diag(1 / prior**2)
    told = identifiability(names, information, prior, np.linalg.norm(J, axis=0), 0 * prior, prior < 0, np.ones(3))
    assert told.rank == 3 and not told.combinations and told.determined == names


def test_what_cannot_be_separated_is_said_in_shares_of_the_numbers():
    """Readings tell 3·mass + 100·rotor + offset, of 2, 0.004 and 0, and one number more."""
    J = np.array([[3.0, 100.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    values, prior = np.array([2.0, 0.004, 0.0, 5.0]), np.full(4, 1e6)
    names, information = ("mass", "rotor", "offset", "length"), J.T @ J + np.diag(1 / prior**2)
    told = identifiability(names, information, prior, np.linalg.norm(J, axis=0), 0 * prior, prior < 0, values)
    assert told.rank == 2 and told.determined == ("length",) and len(told.combinations) == 2
    for one in told.combinations:
        change = [one.parts.get(name, 0.0) * (value or 1.0) for name, value in zip(names, values, strict=True)]
        np.testing.assert_allclose(J @ change, 0.0, atol=1e-6)
        assert max(map(abs, one.parts.values())) == 1 and set(one.zero) == {"offset"} & set(one.parts)
        shown = [f"{10 * part:+.2g} % {name}" for name, part in one.parts.items() if name != "offset"]
        assert all(part in str(told) for part in shown)
