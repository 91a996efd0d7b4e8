"""Compiled programs on disk: found by the next process, switched off, refused by name."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fgmbs import cli
from fgmbs.compiled.cache import cache
from fgmbs.errors import ArgumentError

PROGRAM = """
import json, jax, fgmbs
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name.rsplit("/", 1)[-1]))
folder = fgmbs.cache(*json.loads(input()))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # whatever a fast machine takes
pendulum = fgmbs.load(json.loads(input()))
fgmbs.simulate(pendulum, 0.1, 1e-2)
print(json.dumps([str(folder), events.count("cache_hits"), events.count("cache_misses")]))
"""


def in_a_process(configs, *arguments, **environment):
    """(folder, programs found in it, programs put into it) of a simulation."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_", "FGMBS_"))}
    words = "\n".join(map(json.dumps, (arguments, str(configs / "mechanisms" / "pendulum.yaml"))))
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, input=words, env=clean | environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_next_process_finds_what_took_long_to_compile(configs, tmp_path):
    folder, found, kept = in_a_process(configs, FGMBS_CACHE=str(tmp_path))
    assert folder.startswith(str(tmp_path)) and found == 0 and kept >= 4
    again, found_again, kept_again = in_a_process(configs, str(tmp_path))
    # Larger programs are found without asking JAX (`test_program`).
    assert again == folder and found_again >= 4 and kept_again == 0


def test_no_program_is_kept_twice(configs, tmp_path):
    """Programs that are found without tracing have a number in their names."""
    folder = Path(in_a_process(configs, str(tmp_path))[0])
    assert len(list((folder / "programs").iterdir())) >= 4
    numbered = [path.name for path in folder.glob("*-cache") if re.search("_[0-9a-f]{16}-", path.name)]
    assert not numbered, numbered


def test_a_process_that_was_killed_while_it_kept_a_program_does_no_harm(configs, tmp_path):
    """It leaves a program of which nobody knows when it was used, before which JAX keeps no other."""
    folder = Path(in_a_process(configs, str(tmp_path))[0])
    for used in sorted(folder.glob("*-atime"))[1:]:
        used.unlink()
        used.with_name(used.name.replace("-atime", "-cache")).unlink()
    (left,) = folder.glob("*-atime")
    left.unlink()
    _, found, kept = in_a_process(configs, str(tmp_path))
    programs = {path.name.removesuffix("-cache") for path in folder.glob("*-cache")}
    assert kept >= 3 and len(programs) >= kept
    assert programs == {path.name.removesuffix("-atime") for path in folder.glob("*-atime")}


def test_nothing_is_kept_where_it_is_off(configs):
    assert in_a_process(configs, FGMBS_CACHE="off") == ["None", 0, 0]


def test_a_cache_that_jax_has_is_left_as_it_is(configs, tmp_path):
    own = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "own"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    folder, _, kept = in_a_process(configs, **own, FGMBS_CACHE="off")
    assert folder == str(tmp_path / "own") and kept >= 4


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    text = f"cache: expected a folder that can be written to, or 'off'; found '{file}': Not a directory"
    with pytest.raises(ArgumentError) as refused:
        cache(file)
    assert str(refused.value) == text
    assert cli.main(["check", "mechanism.yaml", "--cache", str(file)]) == 2
    assert capsys.readouterr().err == f"error: {text}\n"
