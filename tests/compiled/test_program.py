"""Programs that are kept: as `equinox.filter_jit` in a process, and found by the next one without being traced."""

import functools
import json
import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.compiled import identity, store
from fgmbs.compiled.program import FULLY, ONCE, Program, forget, program
from fgmbs.compiled.structure import Blank, Returned, split
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.sensors import Gyroscope

TRACED = []


class Pair(eqx.Module):
    array: jax.Array
    name: str = eqx.field(static=True)


@program
def scaled(pair, by, *, power: int = 1):
    TRACED.append(power)
    return Pair(pair.array * by**power, pair.name + "'"), power


@pytest.fixture
def fresh():
    forget()
    jax.clear_caches()
    TRACED.clear()


def test_returns_what_the_function_does_and_traces_once_for_a_structure(fresh):
    pair = Pair(jnp.arange(3.0), "a")
    for factor in (2.0, 3.0):
        out, power = scaled(pair, jnp.asarray(factor), power=2)
        np.testing.assert_array_equal(out.array, np.arange(3.0) * factor**2)
        assert out.name == "a'" and power == 2
    assert TRACED == [2]
    scaled(Pair(pair.array, "b"), jnp.asarray(2.0), power=2)  # another name is another program,
    scaled(pair, jnp.asarray(2.0), power=3)  # so is another number that is no array,
    scaled(Pair(jnp.arange(4.0), "a"), jnp.asarray(2.0), power=2)  # and another shape,
    scaled(pair, jnp.asarray(2), power=2)  # or type
    assert TRACED == [2, 2, 3, 2, 2]


def test_transformations_go_through_it(fresh):
    by = jnp.asarray([2.0, 3.0])
    value = lambda by: jnp.sum(scaled(Pair(jnp.arange(3.0), "a"), by, power=2)[0].array)
    np.testing.assert_allclose(jax.vmap(value)(by), 3 * by**2)
    np.testing.assert_allclose(jax.vmap(jax.grad(value))(by), 6 * by)
    np.testing.assert_allclose(jax.jit(value)(by[0]), 12.0)


def test_options_that_change_programs_are_heeded(fresh):
    pair, by = Pair(jnp.zeros(2), "a"), jnp.asarray(-1.0)
    scaled(pair, by)
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        scaled(pair, jnp.asarray(np.nan))
    with jax.disable_jit():
        count = len(TRACED)
        scaled(pair, by)
        assert len(TRACED) == count + 1


def test_what_hardly_computes_is_optimized_where_its_arguments_are_large(users_code, fresh, monkeypatch):
    """By the level at which XLA compiles; other options of a program stay."""
    program(lambda x: x)(jnp.zeros(1))  # by now it is known which options there are
    taken = []
    compile = jax.stages.Lowered.compile

    def heard(lowered, compiler_options=None):
        taken.append(compiler_options["xla_backend_optimization_level"])
        return compile(lowered, compiler_options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", heard)
    monkeypatch.setattr("fgmbs.compiled.program._LARGE", 10)
    for options in (ONCE, FULLY, {}):
        own = program(**options)(lambda x: x + 1)
        for size in (10, 11):
            np.testing.assert_array_equal(own(jnp.zeros(size)), 1.0)
    assert taken == [0, 1, 3, 3, 1, 1]


def test_what_is_done_ahead_is_found(fresh):
    arguments = Pair(jnp.arange(3.0), "a"), jnp.asarray(2.0)
    out, power = scaled.like(*arguments, power=2)
    assert out.array.shape == (3,) and out.name == "a'" and power == 2
    finish = scaled.ahead(*arguments, power=2)
    finish()
    assert TRACED == [2]
    scaled(*arguments, power=2)
    assert TRACED == [2]


def test_a_function_that_fails_fails_again_and_leaves_nothing(fresh):
    @program
    def wrong(x):
        raise ValueError(f"of shape {x.shape}")

    for _ in range(2):
        with pytest.raises(ValueError, match=r"of shape \(3,\)"):
            wrong(jnp.zeros(3))


def number(*others, function=split, options=None, shapes=((3,),)):
    tree = jax.tree.structure([0] * len(others))
    return identity.of(function, options, tree, others, shapes)


def test_a_program_has_a_number_of_its_own():
    same = number(1, "a", (2.0, None)), number(1, "a", (2.0, None))
    assert same[0] == same[1] and len(same[0]) == 64
    one, two = (split(Gyroscope("gyro", body=body, sigma=0.1))[1] for body in ("crank", "rocker"))
    others = [
        *(number(1), number(1.0), number(True), number("1"), number((1,)), number([1]), number(np.int32(1))),
        *(number(-0.0), number(0.0), number(1, shapes=((4,),)), number(1, function=Returned.of.__func__)),
        *(number(1, options={"a": 1}), number({"a": 1, "b": 2}), number({"b": 2, "a": 1}), number(frozenset("ab"))),
        *(number(np.arange(3)), number(np.arange(3.0)), number(jax.tree.structure((1, 2)))),
        *(number(functools.partial(split, 1)), number(split), number(Blank), number(np.dtype(float))),
        *(
            number(("a", "bc")),
            number(("ab", "c")),
            number(one),
            number(two),
        ),
    ]
    assert None not in others and len(set(others)) == len(others)
    assert number(frozenset("abcdef")) == number(frozenset("fedcba"))


def test_what_another_process_might_not_know_has_none():
    for what in (Pair, object(), scaled, iter(()), lambda: open("table.txt")):
        assert number(what) is None
    assert number(1, function=lambda: open("table.txt")) is None


def test_what_a_description_has_looked_up_is_no_part_of_its_number(configs):
    """Else the next process, which finds what made it look, would compile what comes after."""
    description = parse_mechanism((configs / "mechanisms" / "fourbar_crank_angle.yaml").read_text())
    before = number(description)
    assert description.actuator_names == ("motor",)
    assert number(description) == before is not None


def test_options_of_jax_are_part_of_the_number():
    before = number(1)
    with jax.default_matmul_precision("float32"):
        assert number(1) != before
    assert number(1) == before


def test_flags_of_the_compiler_are_part_of_what_programs_run_on(monkeypatch):
    surroundings = identity._surroundings.__wrapped__
    before = surroundings()
    with monkeypatch.context() as patched:
        patched.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
        assert surroundings() != before
    assert surroundings() == before


SIMULATION = """
import json, jax, fgmbs
traced = []
jax.monitoring.register_event_duration_secs_listener(lambda name, _, **of: traced.append(of.get("fun_name", "")))
folder, file = json.loads(input())
fgmbs.cache(folder)
simulation = fgmbs.simulate(fgmbs.load(file), 0.1, 1e-2)
print(json.dumps([simulation.q.tolist(), [name for name in traced if "_advance" in name or "_observed" in name]]))
"""


def simulated(folder, file):
    """(q, names of its main programs as they were traced or compiled) of a simulation in a process of its own."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "FGMBS_"))}
    words = json.dumps((str(folder), str(file)))
    command = [sys.executable, "-c", SIMULATION]
    done = subprocess.run(command, input=words, env=clean, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_next_process_traces_nothing(configs, tmp_path):
    file = configs / "mechanisms" / "pendulum.yaml"
    q, traced = simulated(tmp_path / "cache", file)
    assert traced
    again, traced_again = simulated(tmp_path / "cache", file)
    assert again == q and traced_again == []
    # Other numbers are the same programs, with other results.
    other = tmp_path / "other.yaml"
    text = file.read_text()
    assert "L: 1.0" in text
    other.write_text(text.replace("L: 1.0", "L: 1.5"))
    longer, traced_other = simulated(tmp_path / "cache", other)
    assert traced_other == [] and longer != q
    # What was cut off or spoilt on disk is made anew.
    (kept,) = (tmp_path / "cache").glob("*/programs")
    for path in kept.iterdir():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert simulated(tmp_path / "cache", file)[0] == q


def test_room_is_made_for_new_programs(tmp_path, monkeypatch, fresh):
    monkeypatch.setattr(store, "_LARGEST", 20_000)
    monkeypatch.setattr(store, "_folder", tmp_path)
    for k in range(4):
        (tmp_path / f"old{k}").write_bytes(b"0" * 8000)
        os.utime(tmp_path / f"old{k}", (k, k))
    store._make_room(tmp_path, 3000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old2", "old3"]


def test_a_program_is_named_as_its_function():
    assert isinstance(scaled, Program) and scaled.__name__ == "scaled" and scaled.__module__ == __name__
