"""Makes model repositories in Triton's layout for the tests."""

from pathlib import Path

from tests.support import onnx_models


def add(
    repository: Path, name: str, config: str | None = None, *, versions: tuple[int, ...] = (1,), file: str = "model.onnx"
) -> Path:
    """A model with one linear layer, another one for each version; `x` [n, 4] to `y` [n, 2]."""
    folder = repository / name
    folder.mkdir(parents=True, exist_ok=True)
    for version in versions:
        (folder / str(version)).mkdir(exist_ok=True)
        onnx_models.linear(folder / str(version), Path(file).stem, seed=version)
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
    return folder


def customize(folder: Path, name: str, config: str) -> None:
    """A model's configuration for `--model-config-name`."""
    (folder / "configs").mkdir(exist_ok=True)
    (folder / f"configs/{name}.pbtxt").write_text(config)


def add_other(repository: Path, name: str, file: str, config: str | None = None) -> Path:
    """A model of another backend."""
    folder = repository / name
    (folder / "1").mkdir(parents=True)
    (folder / "1" / file).write_bytes(b"not ours")
    if config is not None:
        (folder / "config.pbtxt").write_text(config)
    return folder
