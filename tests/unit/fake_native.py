"""A double of `flyball._native` for tests of the Python around it. Behaviour is steered by names and environment.

A model called `bad` is refused; FLYBALL_FAKE_DRAIN_S makes a drain last that long.
"""

import hashlib
import json
import os
import sys
import time
import types


class NativeError(Exception):
    pass


def build_info():
    info = {
        "version": "0.1.0",
        "commit": "c" * 40,
        "profile": "release",
        "target": "t",
        "rustc": "1",
        "debug_assertions": False,
    }
    return json.dumps(info).encode()


def machine():
    rights = [
        {"name": "affinity", "granted": True, "why": "threads can be pinned", "grant": ""},
        {"name": "memlock", "granted": False, "why": "RLIMIT_MEMLOCK is 8 MB", "grant": "ulimit -l unlimited"},
    ]
    document = {
        "cpus": [0, 1, 2, 5],
        "cpu_quota": 1.5,
        "lanes": 2,
        "memory_limit_bytes": None,
        "cpu_model": "cpu",
        "kernel": "6",
    }
    return json.dumps({**document, "rights": rights}).encode()


def model_files(path):
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        document = {"code": "model_refused", "message": f"cannot read {path}: {error.strerror}", "exit_code": 3}
        raise NativeError(json.dumps(document)) from None
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    files = {"digest": digest, "size_bytes": len(content), "external_data": [], "opset": [], "producer": "p", "nodes": 1}
    return json.dumps(files).encode()


def inspect(path, options):
    files = json.loads(model_files(path))
    assert json.loads(options)["ort_path"]
    return json.dumps(
        {
            **files,
            "opset": [{"domain": "", "version": 17}],
            "ort_version": "1.31.1",
            "inputs": [{"name": "input", "datatype": "FP32", "shape": [-1, 12]}],
            "outputs": [{"name": "label", "datatype": "INT64", "shape": [-1]}],
            "batching": {"on": False, "reason": "rows influence each other"},
            "latency": [{"rows": 1, "p50_us": 9.1, "p99_us": 12.0}, {"rows": 64, "p50_us": 2100.0, "p99_us": 2500.0}],
        }
    ).encode()


class Server:
    def __init__(self, config, snapshot):
        self._config = json.loads(config)
        assert self._config["ort_path"]
        self._drain_ends = None
        self._acks = self._applied(snapshot)

    def _applied(self, snapshot):
        acks = []
        for text in json.loads(snapshot)["documents"]:
            document = json.loads(text)
            digest = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
            refused = document["name"] == "bad"
            versions = [
                {"version": item["version"], "batching": {"on": True, "reason": None}} for item in document["versions"]
            ]
            acks.append(
                {
                    "name": document["name"],
                    "digest": digest,
                    "state": "refused" if refused else "applied",
                    "reason": "not an ONNX model" if refused else None,
                    "versions": [] if refused else versions,
                }
            )
        return acks

    def addresses(self):
        return [address.replace(":0", ":4711") for address in self._config["listen"]]

    def ready_line(self):
        names = [f"{ack['name']}:{ack['versions'][0]['version']}" for ack in self._acks if ack["versions"]]
        return f"ready http://{self.addresses()[0]} models={','.join(names)} lanes={self._config['lanes'] or 2}"

    def acks(self):
        return json.dumps(self._acks).encode()

    def apply(self, snapshot):
        self._acks = self._applied(snapshot)
        sys.stderr.write("applied " + ",".join(ack["name"] for ack in self._acks) + "\n")
        sys.stderr.flush()
        return self.acks()

    def drain(self):
        self._drain_ends = time.monotonic() + float(os.environ.get("FLYBALL_FAKE_DRAIN_S", "0"))
        sys.stderr.write("draining\n")
        sys.stderr.flush()

    def wait(self, timeout_s):
        end = time.monotonic() + timeout_s
        while time.monotonic() < end and not self._stopped():
            time.sleep(0.001)
        return self._stopped()

    def _stopped(self):
        return self._drain_ends is not None and time.monotonic() >= self._drain_ends

    def totals(self):
        counts = dict.fromkeys(["received", "answered", "refused", "failed", "abandoned", "in_flight"], 0)
        return json.dumps(counts).encode()


def install():
    """Stand in for the extension in this process."""
    module = types.ModuleType("flyball._native")
    for name in ("NativeError", "build_info", "machine", "model_files", "inspect", "Server"):
        setattr(module, name, globals()[name])
    sys.modules["flyball._native"] = module
    return module


if __name__ == "__main__":
    # `python fake_native.py serve …` is the flyball command with the double in place; its last line on stderr tells
    # which heavy packages were imported.
    import atexit

    install()
    heavy = ("onnxruntime", "numpy", "onnx", "grpc", "fastapi")
    atexit.register(lambda: sys.stderr.write("imported " + ",".join(name for name in heavy if name in sys.modules) + "\n"))
    from flyball.cli import main

    main()
