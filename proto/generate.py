"""Writes python/flyball/client/_oip_pb2.py and .pyi from open_inference.proto.

Run:  python proto/generate.py      (needs grpcio-tools, which requirements/dev.lock has)

The messages get a descriptor pool of their own. In the default pool their names would clash with every other client of
the protocol in the same process (tritonclient declares `inference.ModelInferRequest` too), and the second import fails.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

_HERE = Path(__file__).parent
_TARGET = _HERE.parent / "python" / "flyball" / "client"
_HEADER = "# Generated from proto/open_inference.proto by proto/generate.py; run that again rather than edit this.\n"


def generate() -> dict[str, str]:
    """File name to content, for both generated files."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        arguments = ["protoc", f"-I{_HERE}", f"-I{files('grpc_tools') / '_proto'}"]
        outputs = [f"--python_out={folder}", f"--pyi_out={folder}", "open_inference.proto"]
        if protoc.main([*arguments, *outputs]) != 0:
            raise SystemExit("protoc failed")
        code = Path(folder, "open_inference_pb2.py").read_text()
        stub = Path(folder, "open_inference_pb2.pyi").read_text()
    pooled = code.replace("_descriptor_pool.Default()", "_descriptor_pool.DescriptorPool()")
    pooled = pooled.replace("'open_inference_pb2'", "'flyball.client._oip_pb2'")
    if pooled.count("_descriptor_pool.DescriptorPool()") != 1:
        raise SystemExit("the generated code has changed its shape: its descriptor pool was not found")
    return {"_oip_pb2.py": _HEADER + pooled, "_oip_pb2.pyi": _HEADER + stub}


if __name__ == "__main__":
    for name, content in generate().items():
        (_TARGET / name).write_text(content)
        sys.stdout.write(f"wrote {name}\n")
