"""Does what is shipped work? Wheel and sdist, each installed into a fresh environment.

    python -m tools.smoke [wheel|sdist ...]

Builds them, installs each with its dependencies into an environment of its own, and there asks for
the version and fits a small table away from the repository, so that nothing but what was installed
is found. The fit must have the network whose weights the package carries.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
KINDS = {"wheel": "*.whl", "sdist": "*.tar.gz"}
FIT = """
import numpy as np
import dvisr

assert "site-packages" in dvisr.__file__, dvisr.__file__
x = np.linspace(1.0, 3.0, 12)
y = 2.5 * x + 0.05 * np.random.default_rng(0).standard_normal(12)
model = dvisr.DVISRRegressor(max_tokens=9, num_steps=1, random_state=0).fit(x[:, None], y)
assert model.diagnostics_["network"] == "pretrained", model.diagnostics_["why_plain"]
print(model.functions_[["equation", "probability"]].head(3))
model.report("report.html")
assert model.functions_["expression"][0] in ("x0 * c", "x0 * 5 / 2", "x0 / c"), model.functions_
"""


def run(*command: str | Path, cwd: Path) -> str:
    print("$", *command[:4], "..." if len(command) > 4 else "", flush=True)
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}\nfailed with status {done.returncode}")
    return done.stdout


def try_one(artefact: Path, version: str) -> None:
    with tempfile.TemporaryDirectory(prefix="dvisr-smoke-") as name:
        place = Path(name)
        venv.create(place / "env", with_pip=True)
        folder = place / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        run(folder / "python", "-m", "pip", "install", "--quiet", artefact, cwd=place)
        said = run(folder / "dvisr", "--version", cwd=place)
        assert version in said, said
        print(run(folder / "python", "-W", "ignore", "-c", FIT, cwd=place))


def main() -> None:
    kinds = sys.argv[1:] or list(KINDS)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    with tempfile.TemporaryDirectory(prefix="dvisr-dist-") as name:
        run(sys.executable, "-m", "build", "--outdir", name, cwd=ROOT)
        for kind in kinds:
            (artefact,) = Path(name).glob(KINDS[kind])
            print(f"{artefact.name}, {artefact.stat().st_size / 1e6:.1f} MB")
            try_one(artefact, version)
    print("wheel and sdist work" if len(kinds) == 2 else f"the {kinds[0]} works")


if __name__ == "__main__":
    main()
