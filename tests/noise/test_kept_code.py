"""Models of the package beside those of a user, in one process: what was compiled of one is never
called for the other, though the code of one was kept by another process."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

CODE = """
import sys
import numba
import numpy as np
from dvisr.noise.kernel import kernel_of
from dvisr.noise.student import Student

residuals = np.array([[1.0, -2.0, 3.0]])

def of_user(factor):
    @numba.njit(error_model="numpy", nogil=True)
    def row(z, parameters):
        return 0.5 * factor * z * z, factor, factor
    return kernel_of(row).misfits(residuals, None, 3.0, None)[0]

def of_package():
    return Student(1.0, 4.0).kernel.misfits(residuals, None, 3.0, None)[0]

found = [of_user(1.0 + n) for n in range(int(sys.argv[1]))]
print(repr(float(of_package())))
for factor, value in enumerate(found, start=1):
    assert value == 7.0 * factor, (factor, value)
"""


def student_after(count: int) -> float:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(count)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


@pytest.mark.parametrize("count", [1, 3])
def test_a_model_of_the_users_own_leaves_those_of_the_package_alone(count: int) -> None:
    expected = sum(2.5 * math.log1p(z * z / 4.0) for z in (1.0, -2.0, 3.0))
    assert student_after(0) == pytest.approx(expected, abs=1e-12)  # and its code is kept
    assert student_after(count) == pytest.approx(expected, abs=1e-12)
