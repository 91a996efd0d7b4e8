"""Time of state estimation on the four-bar linkage: batch, real-time loop, and many recordings at once.

    python experiments/benchmarks/smooth.py               # all cores
    taskset -c 0 python experiments/benchmarks/smooth.py  # one: less for an update, which is one kernel

Gyroscope on the coupler at every step, encoder on the crank at every fifth; 1 ms steps, the power of the disturbance
given. "batch": the whole public call, arguments, first guess, bands and statistics included. "update": one call of
`online.step` with its sample handed over and its estimate waited for, back to back and after pauses of 2 ms, in which
a processor forgets what it had at hand. "sweep": the batch solver alone under `jax.vmap` over recordings of 500 steps,
from the same guess. "recordings": several of 300 steps in one call, which share a bias. The first call, compilation
included, apart. Switch JAX's persistent compilation cache off (unset JAX_COMPILATION_CACHE_DIR).
"""

import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro

import fgmbs
from fgmbs.inputs import Disturbance
from fgmbs.problems.smooth import rounds as smoothing
from fgmbs.sensors import Encoder, Gyroscope

DT = 1e-3
SENSORS = (Gyroscope("gyro", body="coupler", sigma=0.02), Encoder("enc", body="crank", sigma=0.01))
INPUTS = (Disturbance(1e-2),)
START = {"x_P1": 1.0}


def timed(function, repeats: int) -> tuple[float, float]:
    """Seconds of the first call and the median of the next ones."""
    seconds = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        jax.block_until_ready(function())
        seconds.append(time.perf_counter() - begin)
    return seconds[0], statistics.median(seconds[1:])


def recorded(mechanism, steps: int, seed: int = 0) -> fgmbs.Recording:
    motion = fgmbs.simulate(mechanism, DT * (steps - 1), DT)
    return fgmbs.readings(mechanism, motion, SENSORS, rates={"gyro": 1 / DT, "enc": 0.2 / DT}, seed=seed)


def batch(mechanism, lengths: tuple[int, ...], repeats: int) -> None:
    print(f"{'batch: steps':>13} {'first call [s]':>15} {'call [ms]':>10} {'per step [µs]':>14}")
    for steps in lengths:
        recording = recorded(mechanism, steps)
        call = lambda recording=recording: fgmbs.smooth(mechanism, recording, SENSORS, INPUTS, dt=DT, start=START).q
        first, later = timed(call, repeats)
        print(f"{steps:>13} {first:>15.2f} {later * 1e3:>10.1f} {later / steps * 1e6:>14.1f}", flush=True)


def updates(mechanism, windows: tuple[int, ...], count: int) -> None:
    head = f"{'update: N_w':>13} {'first call [s]':>15} {'median [µs]':>12} {'p99 [µs]':>9} {'largest [µs]':>13}"
    print(f"{head} {'apart [µs]':>11}")
    recording = recorded(mechanism, 1000)
    gyro, enc = recording["gyro"].values, recording["enc"].values
    for window in windows:
        online = fgmbs.online(mechanism, SENSORS, INPUTS, dt=DT, window=window, between_steps=False)
        samples = [
            online.sample({"gyro": g} | ({"enc": enc[k // 5]} if k % 5 == 0 else {})) for k, g in enumerate(gyro)
        ]
        begin = time.perf_counter()
        jax.block_until_ready(online.step(online.init(START), samples[0]))
        first = time.perf_counter() - begin
        micro, apart = update_times(online, samples, count, 0.0), update_times(online, samples, len(samples), 2e-3)
        row = (
            f"{np.median(micro):>12.0f} {np.percentile(micro, 99):>9.0f} {micro.max():>13.0f} {np.median(apart):>11.0f}"
        )
        print(f"{window:>13} {first:>15.2f} {row}", flush=True)


def update_times(online, samples, count: int, pause: float) -> np.ndarray:
    """Of `count` updates [µs]."""
    seconds = []
    while len(seconds) < count:
        state = online.init(START)
        for sample in samples:
            time.sleep(pause)
            begin = time.perf_counter()
            state, estimate = online.step(state, sample)
            jax.block_until_ready(estimate.numbers)
            seconds.append(time.perf_counter() - begin)
    return np.array(seconds) * 1e6


def sweep(mechanism, sizes: tuple[int, ...], repeats: int, steps: int = 500) -> None:
    print(f"{'sweep: runs':>13} {'first call [s]':>15} {'all [ms]':>10} {'per run [ms]':>13}")
    problem = fgmbs.prepare_smooth(mechanism, recorded(mechanism, steps), SENSORS, INPUTS, dt=DT, start=START)
    at, values = smoothing.begun(problem), problem.recording.channels[0].values

    @eqx.filter_jit
    def solve(problem, at, noise):
        def one(noise):
            other = eqx.tree_at(lambda p: p.recording.channels[0].values, problem, values + noise)
            return smoothing.improved(other, at).x.steps

        return jax.vmap(one)(noise)

    for size in sizes:
        noise = 0.02 * jax.random.normal(jax.random.key(0), (size, *values.shape))
        first, later = timed(lambda noise=noise: solve(problem, at, noise), repeats)
        print(f"{size:>13} {first:>15.2f} {later * 1e3:>10.1f} {later / size * 1e3:>13.2f}", flush=True)


def recordings(mechanism, counts: tuple[int, ...], repeats: int, steps: int = 300) -> None:
    """Several recordings in one call of `smooth`, which share the bias of the gyroscope."""
    print(f"{'recordings':>13} {'first call [s]':>15} {'call [ms]':>10} {'each [ms]':>10}")
    gyro = Gyroscope("gyro", body="coupler", sigma=0.02, bias=fgmbs.Unknown(0.0, sigma=0.1))
    for count in counts:
        every = [recorded(mechanism, steps, seed) for seed in range(count)]
        call = lambda every=every: fgmbs.smooth(mechanism, every, (gyro, SENSORS[1]), INPUTS, dt=DT, start=START).q
        first, later = timed(call, repeats)
        print(f"{count:>13} {first:>15.2f} {later * 1e3:>10.1f} {later / count * 1e3:>10.2f}", flush=True)


def main(
    lengths: tuple[int, ...] = (500, 1000, 2000, 4000, 8000),
    windows: tuple[int, ...] = (2, 5, 10),
    sizes: tuple[int, ...] = (1, 16, 256),
    counts: tuple[int, ...] = (1, 5, 20),
    count: int = 10_000,
    repeats: int = 5,
) -> None:
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}, {jnp.zeros(()).dtype}")
    mechanism = fgmbs.load("configs/mechanisms/fourbar.yaml")
    batch(mechanism, lengths, repeats)
    updates(mechanism, windows, count)
    sweep(mechanism, sizes, repeats)
    recordings(mechanism, counts, repeats)


if __name__ == "__main__":
    tyro.cli(main)
