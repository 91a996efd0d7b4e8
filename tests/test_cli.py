"""The command line: what it writes, says and returns."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fgmbs
from fgmbs import cli, results


@pytest.fixture
def fourbar(configs):
    return str(configs / "mechanisms" / "fourbar_crank_angle.yaml")


def test_simulate_writes_results_then_figures_and_says_how_it_went(fourbar, tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["simulate", fourbar, "--duration", "0.1", "--out", str(out), "--animate"]) == 0
    dataset = results.load_results(out / "results.nc")
    assert dataset.sizes["step"] == 101
    assert {path.name for path in out.iterdir()} == {
        *("results.nc", "mechanism.png", "motion.png", "constraints.png", "energy.png", "animation.gif"),
    }
    said = capsys.readouterr().out
    for line in (
        "steps         101 up to t = 0.1 s",
        "status        converged",
        "iterations",
        "max |Phi|",
        "energy drift",
    ):
        assert line in said
    assert said.index("results.nc") < said.index("motion.png")


def test_run_takes_the_file_and_options_replace_what_it_says(fourbar, tmp_path, capsys):
    (tmp_path / "truth.csv").write_text("t,x_P1\n0,1\n0.1,1\n")
    (tmp_path / "run.yaml").write_text(f"mechanism: {fourbar}\nduration: 0.2\nstart: {{theta: 0.3}}\ntruth: truth.csv")
    out = tmp_path / "out"
    args = ["run", str(tmp_path / "run.yaml"), "--duration", "0.1", "--start", "theta", "0.2", "--no-plots"]
    assert cli.main([*args, "--out", str(out)]) == 0
    dataset = results.load_results(out / "results.nc")
    assert dataset.sizes["step"] == 101
    np.testing.assert_allclose(dataset["q"].sel(coordinate="theta")[0], 0.2)
    assert "RMSE q [m]" in capsys.readouterr().out
    assert [path.name for path in out.iterdir()] == ["results.nc"]


def test_check_names_redundant_rows_and_the_pose(configs, capsys):
    assert cli.main(["check", str(configs / "mechanisms" / "parallel_robot.yaml")]) == 0
    said = capsys.readouterr().out
    assert "n = 22 coordinates, m = 21 constraints" in said
    assert "dof = 2, rank 20 of 21 constraints" in said
    assert "redundant: rigid point upper_r of body 'triangle_r' (y) follows from the constraints before it" in said
    assert "theta_l           -2.35619449" in said
    assert "actuators: drive_l (torque on theta_l), drive_r (torque on theta_r)" in said


def test_check_shows_what_may_not_be_meant(tmp_path, capsys):
    text = "points:\n- {x: 0, y: 0}\n- {x: 1, y: 0}\nplanar_bodies:\n"
    (tmp_path / "free.yaml").write_text(text + "- {points: [0, 1], mass: 1, I0: 1, cog: [0.5, 0]}\n")
    assert cli.main(["check", str(tmp_path / "free.yaml")]) == 0
    said = capsys.readouterr()
    assert "free.yaml:2:1: points: no point is fixed" in said.err and "warning: " in said.err
    assert "dof = 3" in said.out


def test_faults_of_a_file_are_printed_without_a_traceback(tmp_path, capsys):
    (tmp_path / "bad.yaml").write_text("points: 3\n")
    assert cli.main(["check", str(tmp_path / "bad.yaml")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and "bad.yaml:1:9: points: expected a list" in said and "Traceback" not in said


@pytest.mark.parametrize(
    "options, text",
    [
        (["--dt", "-1"], "dt: expected a positive time step in seconds; found -1"),
        (["--window", "1"], "window: expected an integer of at least 2 time steps; found 1"),
        (["--duration", "1e-4"], "duration: expected at least one time step, dt = 0.001 s; found 0.0001 s"),
        (["--truth", "nowhere.csv"], "nowhere.csv: expected a table of a known motion"),
        (["--start", "thta", "0.3"], "start: there is no coordinate 'thta'; did you mean 'theta'?"),
    ],
)
def test_options_that_are_invalid_are_reported(fourbar, tmp_path, capsys, options, text):
    assert cli.main(["simulate", fourbar, "--out", str(tmp_path / "out"), *options]) == 2
    assert text in capsys.readouterr().err


def test_an_unknown_option_is_reported_with_advice(fourbar, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["simulate", fourbar, "--windw", "3"])
    assert exit_.value.code == 2
    assert "--window" in capsys.readouterr().err


def test_a_folder_with_files_is_left_alone_unless_told(fourbar, tmp_path, capsys, monkeypatch):
    (tmp_path / "precious").write_text("")
    monkeypatch.setattr(cli.fgmbs, "simulate", lambda *_, **__: pytest.fail("computed before it was refused"))
    assert cli.main(["simulate", fourbar, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"out: expected a new or empty folder; found files in '{tmp_path}'" in said and "--overwrite" in said


def test_overwrite_replaces_the_results(fourbar, tmp_path):
    (tmp_path / "results.nc").write_text("old")
    args = ["simulate", fourbar, "--out", str(tmp_path), "--duration", "0.1", "--no-plots", "--overwrite"]
    assert cli.main(args) == 0
    assert results.load_results(tmp_path / "results.nc").sizes["step"] == 101


def test_a_folder_that_cannot_be_written_is_reported_at_once(fourbar, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(cli.fgmbs, "simulate", lambda *_, **__: pytest.fail("computed before it was refused"))
    assert cli.main(["simulate", fourbar, "--out", str(tmp_path / "file" / "out")]) == 2
    assert "out: expected a folder that can be written to; found" in capsys.readouterr().err


def test_a_failed_solve_keeps_its_results(fourbar, tmp_path, capsys, monkeypatch):
    simulate = cli.fgmbs.simulate

    def failing(*args, **kwargs):
        raise fgmbs.SolveError("step 7, t = 0.007 s: stalled", simulate(*args, **kwargs))

    monkeypatch.setattr(cli.fgmbs, "simulate", failing)
    args = ["simulate", fourbar, "--out", str(tmp_path), "--duration", "0.1", "--no-plots"]
    assert cli.main(args) == 2
    said = capsys.readouterr().err
    assert "step 7, t = 0.007 s: stalled; the 101 steps up to there are in" in said
    assert results.load_results(tmp_path / "results.nc").sizes["step"] == 101


@pytest.fixture
def trajectory(tmp_path):
    path = tmp_path / "angle.txt"
    t = np.arange(101) * 5e-3
    np.savetxt(path, np.stack([t, 1.2 * (1 - np.cos(2 * t))], axis=1), header="time, angle", comments="% ")
    return str(path)


def test_inverse_writes_results_then_figures_and_says_what_it_found(fourbar, trajectory, tmp_path, capsys):
    out = tmp_path / "out"
    args = ["inverse", fourbar, trajectory, "--columns", "t", "theta", "--covariance", "--out", str(out)]
    assert cli.main(args) == 0
    dataset = results.load_results(out / "results.nc")
    assert dataset.sizes["step"] == 101
    names = ("mechanism", "motion", "constraints", "energy", "forces", "power", "tracking", "joints")
    assert {path.name for path in out.iterdir()} == {"results.nc", *(f"{name}.png" for name in names)}
    said = capsys.readouterr().out
    u = dataset["forces"].values
    for line in (
        "mechanism     fourbar_crank_angle: x_P1, y_P1, x_P2, y_P2, theta",
        "samples       101 from t = 0 to 0.5 s, dt = 0.005 s",
        "status        converged",
        f"actuator      motor: {u.min():.6g} to {u.max():.6g} N m, RMS {np.sqrt(np.mean(u**2)):.6g} N m",
        "peak power",
        "max sigma     motor: ",
        "tracking      theta: error at most ",
        "; standard deviation of the samples ",
        "s including compilation",
    ):
        assert line in said
    assert said.index("results.nc") < said.index("forces.png")


def test_run_of_a_file_with_a_trajectory_is_inverse_dynamics(fourbar, trajectory, tmp_path, capsys):
    text = f"mechanism: {fourbar}\ntrajectory: angle.txt\ncolumns: [t, theta]\ncovariance: true\nsigma: {{theta: 1e-6}}"
    (tmp_path / "run.yaml").write_text(text)
    out = tmp_path / "out"
    args = ["run", str(tmp_path / "run.yaml"), "--actuators", "theta", "--no-plots", "--out", str(out)]
    assert cli.main(args) == 0
    dataset = results.load_results(out / "results.nc")
    assert dataset.actuator.values.tolist() == ["theta"] and float(dataset["sigma"][0]) == 1e-6
    assert [path.name for path in out.iterdir()] == ["results.nc"]
    assert "standard deviation of the samples 1.0e-06 rad" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options, text",
    [
        ([], "angle.txt:2: expected a line of names, t and coordinates, or columns=('t', …)"),
        (
            ["--columns", "t", "thta"],
            "angle.txt: columns: expected names of columns; found 'thta'; did you mean 'theta'?",
        ),
        (
            ["--columns", "t", "theta", "--actuators", "moter"],
            "there is no actuator or coordinate 'moter'; did you mean",
        ),
        (["--columns", "t", "theta", "--sigma", "thta", "1"], "thta"),
        (["--columns", "t", "theta", "--tracking", "weighted"], "effort: expected one for each of 'motor'"),
    ],
)
def test_options_of_inverse_that_are_invalid_are_reported(fourbar, trajectory, tmp_path, capsys, options, text):
    assert cli.main(["inverse", fourbar, trajectory, "--out", str(tmp_path / "out"), *options]) == 2
    assert text in capsys.readouterr().err


@pytest.mark.slow
def test_a_motion_out_of_reach_keeps_what_was_reached(configs, tmp_path, capsys):
    (tmp_path / "far.csv").write_text("t,y_P1\n" + "".join(f"{0.01 * k},{0.05 * k}\n" for k in range(30)))
    args = ["inverse", str(configs / "mechanisms" / "fourbar_crank_angle.yaml"), str(tmp_path / "far.csv")]
    assert cli.main([*args, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert "; the 30 samples are in" in said.err and "status        out_of_reach: " in said.out
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["results.nc"]


def _listens():
    """In a new process: interrupts reach it, also where the tests run in the background of a shell, which ignores
    them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_ctrl_c_saves_the_steps_that_are_done(configs, tmp_path):
    command = [sys.executable, "-m", "fgmbs", "simulate", str(configs / "mechanisms" / "pendulum.yaml")]
    command += ["--duration", "100000", "--out", str(tmp_path / "out")]
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(configs.parent / ".jax_cache")}
    options = dict(stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, preexec_fn=_listens)
    with subprocess.Popen(command, **options) as process:
        said = b""
        os.set_blocking(process.stderr.fileno(), False)
        deadline = time.monotonic() + 120
        while b"simulating" not in said and process.poll() is None and time.monotonic() < deadline:
            said += process.stderr.read() or b""
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        os.set_blocking(process.stderr.fileno(), True)
        out, rest = process.communicate(timeout=120)
    assert process.returncode == 130, (said + rest).decode()
    dataset = results.load_results(tmp_path / "out" / "results.nc")
    steps = dataset.sizes["step"]
    assert 0 < steps < 100_000_001
    assert np.isfinite(dataset["q"]).all()
    assert f"interrupted after {steps} of 100000001 steps; the {steps} steps up to there are in" in rest.decode()
    assert b"Traceback" not in said + rest


@pytest.mark.slow
@pytest.mark.parametrize("times", (1, 2))
@pytest.mark.parametrize("name", ("smooth", "inverse", "simulate"))
def test_ctrl_c_at_any_moment_ends_in_order(configs, tmp_path, name, times):
    """While modules are imported, programs compiled, the start looked for, results drawn; a second time, too."""
    file = dict(smooth="fourbar_smooth", inverse="parallel_robot_inverse", simulate="fourbar_independent")[name]
    command = [sys.executable, "-m", "fgmbs", "run", str(configs / "experiments" / f"{file}.yaml")]
    environment = os.environ | {"FGMBS_CACHE": "off"}
    for wait in (2.0, 4.0, 7.0, 11.0, 16.0):
        options = dict(stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, preexec_fn=_listens)
        with subprocess.Popen([*command, "--out", str(tmp_path / f"{wait:.0f}")], **options) as process:
            try:
                process.wait(wait)
            except subprocess.TimeoutExpired:
                for _ in range(times):
                    process.send_signal(signal.SIGINT)
                    time.sleep(0.05)
            _, said = process.communicate(timeout=60)
        if process.returncode == -signal.SIGINT:
            assert b"import jax" in said  # before fgmbs is there
            continue
        assert process.returncode in (0, 130), said.decode()
        assert b"Traceback" not in said, said.decode()
        if process.returncode == 0:
            break
        assert b"interrupted" in said


def test_an_interrupt_behind_the_end_changes_nothing(configs):
    """While Python takes itself down."""
    program = """
import signal
from fgmbs import __main__

class Late:
    def __del__(self, interrupt=signal.raise_signal):
        interrupt(signal.SIGINT)
late = Late()
__main__.main()
"""
    file = str(configs / "mechanisms" / "pendulum.yaml")
    done = subprocess.run([sys.executable, "-c", program, "check", file], capture_output=True, preexec_fn=_listens)
    assert done.returncode == 0 and not done.stderr and b"pendulum" in done.stdout


def test_an_interrupt_that_a_callback_ignores_comes_again():
    program = """
import gc, signal, sys, threading, time
from fgmbs import __main__
__main__._listen()
def ignored(phase, info):
    gc.callbacks.clear()
    signal.raise_signal(signal.SIGINT)
gc.callbacks.append(ignored)
try:
    gc.collect()
    time.sleep(5)
except KeyboardInterrupt:
    print("heard")
"""
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=_listens)
    assert run.stdout == "heard\n" and run.returncode == 0, run.stderr


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"fgmbs {fgmbs.__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_nobody_can_read_ends_with_an_error(configs):
    """A full disk; and a reader that has gone."""
    command = [sys.executable, "-m", "fgmbs", "check", str(configs / "mechanisms" / "pendulum.yaml")]
    with open("/dev/full", "w") as full:
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (run.returncode, run.stderr) == (2, "error: standard output: No space left on device\n")
