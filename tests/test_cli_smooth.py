"""`fgmbs smooth`: what it writes, says and returns."""

import contextlib
import io
import json
import types

import numpy as np
import pytest

import fgmbs
from fgmbs import cli, results
from fgmbs import smooth as fgmbs_smooth
from fgmbs.errors import Interrupted


@pytest.fixture(scope="module")
def folder(swing, configs, tmp_path_factory):
    """An experiment of the pendulum: a file of sensors and a recording."""
    folder = tmp_path_factory.mktemp("smooth")
    angle = np.unwrap(np.arctan2(swing.q[:, 1], swing.q[:, 0]))
    angle = angle + 1e-3 * np.random.default_rng(0).standard_normal(61)
    rows = [f"{t:.3f},{np.rad2deg(a):.6f}" for t, a in zip(swing.t, angle, strict=True)]
    (folder / "rod.csv").write_text("\n".join(["t,angle [deg]", *rows]))
    (folder / "sensors.yaml").write_text(
        "sensors:\n- {type: encoder, name: angle, body: rod, sigma: 1e-3}\ninputs: [{type: disturbance, power: 1e-3}]"
    )
    header = f"mechanism: {configs / 'mechanisms' / 'pendulum.yaml'}\nsensors: sensors.yaml\nstart: {{y_tip: -0.7}}\n"
    (folder / "run.yaml").write_text(f"{header}recording: rod.csv\ntruth: truth.csv\nstart_sigma: [0.1, 1]\n")
    truth = [f"{t:.3f},{x},{y}" for t, (x, y) in zip(swing.t, swing.q, strict=True)]
    (folder / "truth.csv").write_text("\n".join(["t,x_tip,y_tip", *truth]))
    return folder


@pytest.fixture(scope="module")
def done(folder, tmp_path_factory):
    """The experiment carried out: exit code, output folder, what it said, and the estimate."""
    out, said, estimates = tmp_path_factory.mktemp("done") / "out", io.StringIO(), []

    def smooth(*arguments, **options):
        estimates.append(fgmbs_smooth(*arguments, **options))
        return estimates[-1]

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setattr(cli.fgmbs, "smooth", smooth)
        args = ["smooth", str(folder / "run.yaml"), "--out", str(out), "--start-sigma", "0.2", "2"]
        code = cli.main(args)
    return types.SimpleNamespace(code=code, out=out, said=said.getvalue(), estimate=estimates[0])


def test_smooth_writes_results_reports_and_draws(done):
    assert done.code == 0
    dataset = results.load_results(done.out / "results.nc")
    assert dataset.sizes["step"] == 61 and dataset["angle.measured"].shape == (61, 1)
    config = json.loads(dataset.attrs["config"])
    assert config["start"] == {"y_tip": -0.7} and config["start_sigma"] == [0.2, 2.0]
    assert {"coordinates.png", "residuals.png", "report.html"} <= {path.name for path in done.out.iterdir()}
    for line in ("steps         61 of dt = 0.005 s", "status        converged", "RMSE q [m]", "within ±2σ    q "):
        assert line in done.said
    assert done.said.index("Residuals") < done.said.index("results.nc") < done.said.index("report        ")
    error = dataset["q"].values - dataset["truth_q"].values
    assert np.sqrt(np.mean(error**2)) < 1e-3  # the encoder's noise


def test_run_takes_it_too_and_options_replace_what_the_file_says(folder, done, tmp_path, monkeypatch):
    given = {}

    def smooth(*_, progress, **options):
        given.update(options)
        progress("solving", 0, 12.5)
        return done.estimate

    monkeypatch.setattr(cli.fgmbs, "smooth", smooth)
    args = ["run", str(folder / "run.yaml"), "--no-plots", "--out", str(tmp_path), "--dt", "1e-2"]
    assert cli.main([*args, "--start", "x_tip", "0.7"]) == 0
    assert given["dt"] == 0.01
    assert given["start"] == {"y_tip": -0.7, "x_tip": 0.7} and given["start_sigma"] == (0.1, 1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["results.nc"]


@pytest.mark.parametrize("error, code", [(fgmbs.SolveError, 2), (Interrupted, 130)])
def test_what_was_reached_is_saved_before_the_failure(folder, done, tmp_path, capsys, monkeypatch, error, code):
    def failing(*_, **__):
        raise error("ended early", done.estimate)

    monkeypatch.setattr(cli.fgmbs, "smooth", failing)
    assert cli.main(["smooth", str(folder / "run.yaml"), "--out", str(tmp_path)]) == code
    said = capsys.readouterr()
    assert "ended early; what was reached of the 61 steps is in" in said.err and "Traceback" not in said.err
    assert "Residuals" in said.out
    assert [path.name for path in tmp_path.iterdir()] == ["results.nc"]


def test_ctrl_c_before_there_is_anything_says_so(folder, tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.fgmbs, "smooth", interrupted)
    assert cli.main(["smooth", str(folder / "run.yaml"), "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err.strip().endswith("interrupted")


@pytest.mark.parametrize(
    "options, text",
    [
        (["--dt", "-1"], "dt: expected a positive time step in seconds; found -1"),
        (["--window", "1"], "window: expected an integer of at least 2 time steps; found 1"),
        (["--recording", "none.csv"], "none.csv: expected a recording; found: No such file"),
        (["--truth", "none.csv"], "none.csv: expected a table of a known motion"),
        (["--independent", "z"], "independent: there is no coordinate 'z'"),
        (["--start", "z", "1"], "start: there is no coordinate 'z'"),
    ],
)
def test_options_that_are_invalid_are_reported(folder, tmp_path, capsys, options, text):
    assert cli.main(["smooth", str(folder / "run.yaml"), "--out", str(tmp_path / "out"), *options]) == 2
    assert text in capsys.readouterr().err


def test_faults_of_the_files_are_reported_before_anything_is_computed(folder, configs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cli.fgmbs, "smooth", lambda *_, **__: pytest.fail("computed before it was refused"))
    text = (folder / "run.yaml").read_text().replace("rod.csv", f"{folder}/rod.csv").replace("truth: truth.csv\n", "")
    (tmp_path / "sensors.yaml").write_text("sensors:\n- {type: encoder, name: angle, body: rot, sigma: 1}")
    (tmp_path / "run.yaml").write_text(text)
    assert cli.main(["smooth", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "out")]) == 2
    assert "sensors.yaml:2:38: sensors[0].body: there is no body 'rot'; did you mean 'rod'?" in capsys.readouterr().err
    assert cli.main(["smooth", str(configs / "experiments" / "fourbar_forward.yaml")]) == 2
    assert "expected an experiment with a recording" in capsys.readouterr().err


def test_a_parameter_that_a_robot_does_not_have_is_refused_at_its_place(configs, tmp_path, capsys):
    (tmp_path / "empty.csv").write_text("t,angle\n0,0\n1,0\n")
    text = "sensors: [{type: encoder, name: angle, of: elbow, sigma: 1e-3}]\nparameters: {masses: 1.0}\n"
    head = f"mechanism: {configs / 'robots' / 'scara.yaml'}\nrecording: empty.csv\nout: {tmp_path / 'out'}\n"
    (tmp_path / "run.yaml").write_text(head + text)
    assert cli.main(["smooth", str(tmp_path / "run.yaml")]) == 2
    error = capsys.readouterr().err
    assert "run.yaml:5:22: parameters.masses: expected names of parameters; found 'masses'" in error
    assert "shoulder.damping" in error
    text = head.replace("empty.csv", "{file: empty.csv, numbers: {masses: 1}}") + text.partition("\n")[0]
    (tmp_path / "run.yaml").write_text(text)
    assert cli.main(["smooth", str(tmp_path / "run.yaml")]) == 2
    error = capsys.readouterr().err
    assert "run.yaml:2:48: recording.numbers.masses: expected names of parameters; found 'masses'" in error
