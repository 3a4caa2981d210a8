"""Writes the message classes of python/flyball, *_pb2.py and .pyi, from the .proto files here.

Run:  python proto/generate.py      (needs grpcio-tools, which requirements/dev.lock has)

Each file's messages get a descriptor pool of their own. In the default pool their names would clash with every other client
of the protocol in the same process (tritonclient declares `inference.ModelInferRequest` too), and the second import fails.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

_HERE = Path(__file__).parent
_TARGET = _HERE.parent / "python" / "flyball"
_MODULES = {
    "open_inference": "client/_oip_pb2",
    "decisions": "client/_decisions_pb2",
    "model_config": "triton/_model_config_pb2",
}


def generate() -> dict[str, str]:
    """Path under python/flyball to content, for all generated files."""
    contents: dict[str, str] = {}
    for source, target in _MODULES.items():
        contents |= _generate(source, target)
    return contents


def _generate(source: str, target: str) -> dict[str, str]:
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        arguments = ["protoc", f"-I{_HERE}", f"-I{files('grpc_tools') / '_proto'}"]
        outputs = [f"--python_out={folder}", f"--pyi_out={folder}", f"{source}.proto"]
        if protoc.main([*arguments, *outputs]) != 0:
            raise SystemExit("protoc failed")
        code = Path(folder, f"{source}_pb2.py").read_text()
        stub = Path(folder, f"{source}_pb2.pyi").read_text()
    pooled = code.replace("_descriptor_pool.Default()", "_descriptor_pool.DescriptorPool()")
    pooled = pooled.replace(f"'{source}_pb2'", f"'flyball.{target.replace('/', '.')}'")
    if pooled.count("_descriptor_pool.DescriptorPool()") != 1:
        raise SystemExit("the generated code has changed its shape: its descriptor pool was not found")
    header = f"# Generated from proto/{source}.proto by proto/generate.py; run that again rather than edit this.\n"
    return {f"{target}.py": header + pooled, f"{target}.pyi": header + stub}


if __name__ == "__main__":
    for name, content in generate().items():
        (_TARGET / name).write_text(content)
        sys.stdout.write(f"wrote {name}\n")
