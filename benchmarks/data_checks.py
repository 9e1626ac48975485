"""False alarms and power of the checks of the data, on posteriors that are drawn exactly.

`python -m benchmarks.data_checks --sets 40` prints, for each scenario, the share of data sets that
each check flags, and the share with a grade of do-not-trust. tests/checks/posteriors.py has the
posteriors.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from tests.checks.posteriors import FREEDOM, Rng, Table, fit

from dvisr.checks import CHECKS, Check, Grade, check_data

Scenario = Callable[[int, Rng], Table]
GOOD_SIZES = (8, 12, 20, 30, 100, 300, 1000)
BASES: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda x: x,
    np.sin,
    np.exp,
    lambda x: x**2,
    lambda x: np.abs(x) ** 0.5,
)


# Good tables


def columns_of(n: int, count: int, rng: Rng) -> np.ndarray:
    """Columns of several kinds: uniform, normal, on a grid, of a few values."""
    kinds = (
        lambda: rng.uniform(-1.0, 1.0, n),
        lambda: rng.standard_normal(n),
        lambda: np.linspace(-1.0, 1.0, n),
        lambda: rng.integers(0, 5, n).astype(float),
    )
    return np.stack([kinds[rng.integers(len(kinds))]() for _ in range(count)], axis=1)


def basis_of(X: np.ndarray, k: int, rng: Rng) -> np.ndarray:
    """A constant, and functions of columns, such that none is nearly a sum of the others."""
    while True:
        parts = [np.ones(len(X))]
        while len(parts) < k:
            column = X[:, rng.integers(X.shape[1])]
            parts.append(BASES[rng.integers(len(BASES))](column))
        basis = np.stack(parts, axis=1)
        if np.linalg.cond(basis) < 1e3:
            return basis


def good(noise: str, n: int, given: bool, rng: Rng) -> Table:
    """A table whose model is right."""
    X = columns_of(n, int(rng.integers(1, 7)), rng)
    basis = basis_of(X, int(rng.integers(1, 4)), rng)
    curve = basis @ rng.normal(0.0, 1.0, basis.shape[1])
    s = float(10.0 ** rng.uniform(-2.0, 0.0))
    eps = rng.standard_t(FREEDOM, n) if noise == "student" else rng.standard_normal(n)
    y = curve + s * eps
    shuffled = rng.permutation(n)
    y = np.exp(y) if noise == "relative" else y
    return Table(X[shuffled], basis[shuffled], y[shuffled], noise, s if given else None)


# Planted faults: a line in one column out of one or two, with noise of 1, unless said otherwise.


def _line(n: int, rng: Rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = rng.uniform(-1.0, 1.0, (n, 2))
    basis = np.column_stack([np.ones(n), X[:, 0]])
    return X, basis, basis @ np.array([1.0, 5.0])


def thrown(n: int, rng: Rng) -> Table:
    """A tenth of the rows thrown off by 8 to 30 standard deviations."""
    X, basis, curve = _line(n, rng)
    y = curve + rng.standard_normal(n)
    rows = rng.choice(n, max(1, n // 10), replace=False)
    y[rows] += rng.uniform(8.0, 30.0, len(rows)) * rng.choice([-1.0, 1.0], len(rows))
    return Table(X, basis, y)


def cauchy(n: int, rng: Rng) -> Table:
    X, basis, curve = _line(n, rng)
    return Table(X, basis, curve + rng.standard_cauchy(n))


def growing(n: int, rng: Rng) -> Table:
    """Noise that grows by a factor of 5 to 10 over the range, exponentially."""
    X, basis, curve = _line(n, rng)
    size = rng.uniform(5.0, 10.0) ** ((X[:, 0] + 1.0) / 2.0)
    return Table(X, basis, curve + size * rng.standard_normal(n))


def proportional(n: int, rng: Rng) -> Table:
    """Relative noise of 20 % fitted as Gaussian, with y over a decade."""
    X = rng.uniform(1.0, 10.0, (n, 1))
    return Table(X, X.copy(), 2.0 * X[:, 0] * np.exp(0.2 * rng.standard_normal(n)))


def bent(n: int, rng: Rng) -> Table:
    """A line fitted to a parabola that leaves it by 2.5 standard deviations."""
    X, basis, curve = _line(n, rng)
    return Table(X, basis, curve + 2.5 * (2.0 * X[:, 0] ** 2 - 1.0) + rng.standard_normal(n))


def wavy(n: int, rng: Rng) -> Table:
    """A line fitted to a line and a wave of amplitude 2.5."""
    X, basis, curve = _line(n, rng)
    wave = 2.5 * np.sin(6.0 * X[:, 0] + rng.uniform(0.0, 6.3))
    return Table(X, basis, curve + wave + rng.standard_normal(n))


def crossed(n: int, rng: Rng) -> Table:
    """A missing product of two columns, of standard deviation 2."""
    X, basis, curve = _line(n, rng)
    return Table(X, basis, curve + 6.0 * X[:, 0] * X[:, 1] + rng.standard_normal(n))


def drifting(n: int, rng: Rng) -> Table:
    """A drift along the rows, by 4 standard deviations from the first to the last."""
    X, basis, curve = _line(n, rng)
    return Table(X, basis, curve + np.linspace(-2.0, 2.0, n) + rng.standard_normal(n))


def lasting(n: int, rng: Rng) -> Table:
    """Noise that is correlated by 0.8 from row to row."""
    X, basis, curve = _line(n, rng)
    noise = rng.standard_normal(n)
    for i in range(1, n):
        noise[i] = 0.8 * noise[i - 1] + 0.6 * noise[i]
    return Table(X, basis, curve + noise)


def copied(n: int, rng: Rng) -> Table:
    """Each of n rows copied ten times."""
    X, basis, curve = _line(n, rng)
    ten = np.tile(np.arange(n), 10)
    return Table(X[ten], basis[ten], (curve + rng.standard_normal(n))[ten])


def too_small(n: int, rng: Rng) -> Table:
    """Noise given as a third of what it is."""
    X, basis, curve = _line(n, rng)
    return Table(X, basis, curve + rng.standard_normal(n), sigma=1.0 / 3.0)


def too_large(n: int, rng: Rng) -> Table:
    """Noise given as three times what it is."""
    X, basis, curve = _line(n, rng)
    return Table(X, basis, curve + rng.standard_normal(n), sigma=3.0)


def noiseless(n: int, rng: Rng) -> Table:
    """No noise at all, and the noise to be found."""
    X, basis, curve = _line(n, rng)
    return Table(X, basis, curve)


def scarce(n: int, rng: Rng) -> Table:
    """Three constants, whatever n is."""
    X, basis, curve = _line(n, rng)
    three = np.column_stack([basis, X[:, 0] ** 2])
    return Table(X, three, curve + rng.standard_normal(n))


def lever(n: int, rng: Rng) -> Table:
    """One row far out, and off by 15 standard deviations: it turns the line."""
    X, _, _ = _line(n, rng)
    X[0, 0] = 4.0
    basis = np.column_stack([np.ones(n), X[:, 0]])
    y = basis @ np.array([1.0, 5.0]) + rng.standard_normal(n)
    y[0] += 15.0
    return Table(X, basis, y)


def rounded(n: int, rng: Rng) -> Table:
    """Good: whole numbers at five values of x, so that equal rows are no copies."""
    X = rng.integers(0, 5, (n, 1)).astype(float)
    basis = np.column_stack([np.ones(n), X])
    return Table(X, basis, np.round(basis @ np.array([1.0, 2.0]) + rng.standard_normal(n)))


def repeated(n: int, rng: Rng) -> Table:
    """Good: honest repeats, five at each x."""
    X = np.repeat(rng.uniform(-1.0, 1.0, -(-n // 5)), 5)[:n, None]
    basis = np.column_stack([np.ones(n), X])
    return Table(X, basis, basis @ np.array([1.0, 2.0]) + rng.standard_normal(n))


def mixed(n: int, rng: Rng) -> Table:
    """Good: the right formula among 20 that are weighed by the data."""
    X = rng.uniform(-1.0, 1.0, (n, 2))
    basis = basis_of(X, 2, rng)
    rivals = tuple(basis_of(X, int(rng.integers(1, 5)), rng) for _ in range(20))
    y = basis @ rng.normal(0.0, 1.0, 2) + 0.3 * rng.standard_normal(n)
    return Table(X, basis, y, rivals=rivals)


HONEST: tuple[tuple[Scenario, tuple[int, ...]], ...] = (
    (mixed, (8, 20, 100)),
    (rounded, (60, 600)),
    (repeated, (60,)),
)
PLANTED: tuple[tuple[Scenario, tuple[int, ...]], ...] = (
    (thrown, (20, 30, 100)),
    (cauchy, (20, 30, 100)),
    (growing, (20, 30, 100)),
    (proportional, (20, 30, 100)),
    (bent, (20, 30, 100)),
    (wavy, (20, 30, 100)),
    (crossed, (30, 100)),
    (drifting, (20, 30, 100)),
    (lasting, (20, 30, 100)),
    (copied, (8, 30)),
    (too_small, (8, 20, 100)),
    (too_large, (8, 20, 100)),
    (noiseless, (12, 30)),
    (scarce, (4, 5)),
    (lever, (12, 30)),
)


# The table


def measure(make: Callable[[Rng], Table], label: str, sets: int) -> list[list[Check]]:
    """The checks of each of several data sets; seeds are made of the label."""
    found = []
    for number in range(sets):
        rng = np.random.default_rng([zlib.crc32(label.encode()), number])
        found.append(check_data(fit(make(rng), rng)))
    return found


def show(label: str, found: Sequence[Sequence[Check]]) -> str:
    names = [check.__name__ for check in CHECKS]
    flags = np.array([[one.grade > Grade.OK for one in checks] for checks in found])
    grave = np.mean([any(one.grade is Grade.DO_NOT_TRUST for one in c) for c in found])
    shares = [flags[:, j].mean() for j in range(len(names))]
    return (
        f"{label:26}"
        + "".join(f"{share:10.1%}" if share else f"{'.':>10}" for share in shares)
        + f"{flags.any(axis=1).mean():10.1%}{grave:10.1%}"
    )


def good_scenarios(sizes: Sequence[int]) -> list[tuple[str, Callable[[Rng], Table]]]:
    def of(noise: str, n: int, given: bool) -> Callable[[Rng], Table]:
        return lambda rng: good(noise, n, given, rng)

    kinds = (("gaussian", False), ("gaussian", True), ("relative", False), ("student", False))
    return [
        (f"{noise}{' given' if given else ''} {n}", of(noise, n, given))
        for n in sizes
        for noise, given in kinds
    ]


def maker(make: Scenario, n: int) -> Callable[[Rng], Table]:
    return lambda rng: make(n, rng)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=15, help="data sets in each scenario")
    parser.add_argument("--sizes", type=int, nargs="*", default=GOOD_SIZES, help="of good tables")
    parser.add_argument("--only", choices=("good", "planted"), help="one half of the table")
    arguments = parser.parse_args()
    began = time.perf_counter()
    names = "".join(f"{check.__name__:>10}" for check in CHECKS)
    print(f"{'share flagged':26}{names}{'any':>10}{'grave':>10}")
    listed = good_scenarios(arguments.sizes)
    listed += [(f"{make.__name__} {n}", maker(make, n)) for make, sizes in HONEST for n in sizes]
    every: list[list[Check]] = []
    for label, scenario in listed if arguments.only != "planted" else []:
        found = measure(scenario, label, arguments.sets)
        every += found
        print(show(label, found), flush=True)
    if every:
        print(show(f"all {len(every)} good", every))
    for make, sizes in PLANTED if arguments.only != "good" else ():
        for n in sizes:
            label = f"{make.__name__} {n}"
            print(show(label, measure(maker(make, n), label, arguments.sets)), flush=True)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
