"""Model repositories of the suites: made once by Triton's own generators, copied and edited for each step.

`TRITON_QA_DIR` is the folder `qa` of Triton's repository. Must not know servers.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.parts.here import NotHereError

if TYPE_CHECKING:
    from pathlib import Path

_GENERATE_S = 600
# As `qa/common/gen_qa_model_repository` calls them, for ONNX alone.
_GENERATORS = {
    "qa_model_repository": "gen_qa_models.py --onnx",
    "qa_variable_model_repository": "gen_qa_models.py --onnx --variable",
    "qa_identity_model_repository": "gen_qa_identity_models.py --onnx",
    "qa_reshape_model_repository": "gen_qa_reshape_models.py --onnx --variable",
    "qa_sequence_model_repository": "gen_qa_sequence_models.py --onnx",
    "qa_scalar_models": "gen_qa_ort_scalar_models.py",
}


def generate(qa: Path, python: Path, out: Path) -> None:
    """Run Triton's generators once; a second run finds the models."""
    for name, command in _GENERATORS.items():
        ready = out / f"{name}.ready"
        if ready.exists():
            continue
        shutil.rmtree(out / name, ignore_errors=True)
        (out / name).mkdir(parents=True)
        script, *flags = command.split()
        done = subprocess.run(
            [str(python), script, *flags, "--onnx_opset=0", f"--models_dir={out / name}"],
            cwd=qa / "common",
            capture_output=True,
            text=True,
            timeout=_GENERATE_S,
            check=False,
        )
        if done.returncode:
            raise NotHereError(f"{script} failed: {done.stderr.strip().splitlines()[-1:]}")
        ready.touch()


@dataclass(frozen=True, slots=True)
class Repositories:
    """The folder of a suite during one step, and where its fixtures come from."""

    qa: Path
    made: Path
    here: Path

    def take(self, repository: str, pattern: str = "onnx_*", to: str = "models", *, under: str = "onnx") -> None:
        """Copy generated models; `under` names those of another backend or an ensemble, for which they stand in."""
        for folder in sorted((self.made / repository).glob(pattern)):
            target = self.here / to / (under + folder.name.removeprefix("onnx"))
            shutil.copytree(folder, target, dirs_exist_ok=True)
            self.edit(target / "config.pbtxt", r"(?m)^name:.*$", f'name: "{target.name}"')

    def fixture(self, path: str, to: str = "models", name: str = "") -> Path:
        """Copy a model that the suites keep as files, and return its folder."""
        source = self.qa / path
        target = self.here / to / (name or source.name)
        shutil.copytree(source, target, dirs_exist_ok=True)
        return target

    def edit(self, file: Path, pattern: str, replacement: str) -> None:
        """Replace in a file, as the suites do with sed."""
        file.write_text(re.sub(pattern, replacement, file.read_text()))

    def empty(self, *names: str) -> None:
        """Remove folders and make them again."""
        for name in names:
            shutil.rmtree(self.here / name, ignore_errors=True)
            (self.here / name).mkdir(parents=True)
