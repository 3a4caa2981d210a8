"""The record of a machine, read from trees of files that stand for other machines, and what is said about it."""

import pytest

from flyball.bench import machine as recording
from flyball.bench.machine import (
    HostWatch,
    machine_record,
    refuse_debug_build,
    software_record,
    virtual_note,
    warnings_of,
)
from flyball.errors import RefusedError
from flyball.native import machine

CPUINFO = "processor\t: 0\nflags\t\t: fpu sse avx2{more}\n\nprocessor\t: 1\nflags\t\t: other\n"
STAT = "cpu  {0} 0 0 0 0 0 0 {1} 7 7\ncpu0 {2} 0 0 0 0 0 0 {3} 0 0\ncpu1 {4} 0 0 0 0 0 0 {5} 0 0\nintr 1\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty machine with four cores in the mask and no limit by version 2 of cgroups."""
    seen = machine.machine().model_copy(update={"cpus": [0, 1, 2, 3], "cpu_quota": None, "memory_limit_bytes": None})
    monkeypatch.setattr(recording, "machine", lambda: seen)
    write(tmp_path, {"proc/cpuinfo": CPUINFO.format(more=""), "proc/meminfo": "MemFree: 1 kB\nMemTotal:     2048 kB\n"})
    return tmp_path


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def governors(**by_cpu):
    return {f"sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor": f"{name}\n" for cpu, name in by_cpu.items()}


def test_a_bare_machine_is_recorded_with_its_flags_and_memory_and_nothing_made_up(root):
    record = machine_record([0, 1], [2], root=root)
    assert record.cpu_flags == ["fpu", "sse", "avx2"]
    assert record.memory_bytes == 2048 * 1024
    assert (record.server_cpus, record.generator_cpus, record.cpus_allowed) == ([0, 1], [2], [0, 1, 2, 3])
    assert (record.governor, record.virtualisation) == (None, None)
    assert (record.cgroup_cpu_quota, record.cgroup_memory_bytes) == (None, None)
    assert warnings_of(record) == []


def test_this_machine_can_be_recorded():
    record = machine_record(None, None)
    assert record.cpus_online >= len(record.cpus_allowed) >= 1
    assert record.memory_bytes > 100_000_000
    assert record.kernel == machine.machine().kernel


def test_arm_calls_its_flags_features(root):
    write(root, {"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd\n"})
    assert machine_record(None, None, root=root).cpu_flags == ["fp", "asimd"]


def test_the_governor_is_that_of_the_cores_in_use(root):
    write(root, governors(cpu0="performance", cpu1="performance", cpu3="powersave"))
    assert machine_record([0], [1], root=root).governor == "performance"
    assert machine_record([0], [3], root=root).governor == "performance, powersave"
    assert machine_record([0], None, root=root).governor == "performance, powersave"


@pytest.mark.parametrize(
    ("flags", "files", "told"),
    [
        ("", {}, None),
        (" hypervisor", {}, "virtual machine"),
        (" hypervisor", {"sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}, "virtual machine (Amazon EC2)"),
        ("", {"sys/class/dmi/id/sys_vendor": "Dell Inc.\n"}, None),
        ("", {"sys/hypervisor/type": "xen\n"}, "virtual machine (xen)"),
    ],
    ids=["metal", "flag", "flag and vendor", "vendor alone", "xen without the flag"],
)
def test_a_virtual_machine_is_known_by_its_hypervisor(root, flags, files, told):
    write(root, {"proc/cpuinfo": CPUINFO.format(more=flags), **files})
    assert machine_record(None, None, root=root).virtualisation == told


def test_limits_of_version_1_are_the_tightest_on_the_way_up(root):
    groups = root / "sys/fs/cgroup"
    write(
        root,
        {
            "proc/self/cgroup": "4:memory:/a/b\n3:cpu,cpuacct:/a/b\n2:cpuset:/\n0::/\n",
            f"{groups}/cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1\n",
            f"{groups}/cpu,cpuacct/a/b/cpu.cfs_period_us": "100000\n",
            f"{groups}/cpu,cpuacct/a/cpu.cfs_quota_us": "150000\n",
            f"{groups}/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
            f"{groups}/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
            f"{groups}/memory/memory.limit_in_bytes": "4096\n",
        },
    )
    record = machine_record(None, None, root=root)
    assert (record.cgroup_cpu_quota, record.cgroup_memory_bytes) == (1.5, 4096)


def test_no_limit_of_version_1_is_no_limit(root):
    write(
        root,
        {
            "proc/self/cgroup": "4:memory:/\n3:cpu:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    record = machine_record(None, None, root=root)
    assert (record.cgroup_cpu_quota, record.cgroup_memory_bytes) == (None, None)


def test_limits_of_version_2_come_from_the_extension(root, monkeypatch):
    seen = machine.machine().model_copy(update={"cpu_quota": 0.5, "memory_limit_bytes": 77})
    monkeypatch.setattr(recording, "machine", lambda: seen)
    record = machine_record(None, None, root=root)
    assert (record.cgroup_cpu_quota, record.cgroup_memory_bytes) == (0.5, 77)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"governor": "performance"}, []),
        ({"governor": "performance, powersave"}, ["cpupower frequency-set -g performance"]),
        ({"server_cpus": [0, 1], "generator_cpus": [1, 2]}, ["shares cores with the server (1)"]),
        ({"server_cpus": [0], "generator_cpus": None}, ["shares cores with the server (0)"]),
        ({"server_cpus": None, "generator_cpus": None}, []),
        ({"cgroup_cpu_quota": 3.0}, []),
        ({"cgroup_cpu_quota": 0.5}, ["limits 3 to the time of 0.5 cores"]),
        ({"virtualisation": "virtual machine (xen)"}, []),
        ({"governor": "powersave", "cgroup_cpu_quota": 1}, ["powersave", "raise its CPU limit"]),
    ],
)
def test_what_spoils_figures_is_said_in_words(root, changes, words):
    warnings = warnings_of(machine_record([0, 1], [2], root=root).model_copy(update=changes))
    assert len(warnings) == len(words)
    for warning, part in zip(warnings, words, strict=True):
        assert part in warning


def test_a_virtual_machine_is_noted_and_bare_metal_is_not(root):
    record = machine_record([0], [1], root=root).model_copy(update={"virtualisation": None})
    assert virtual_note(record) is None
    note = virtual_note(record.model_copy(update={"virtualisation": "virtual machine (xen)"}))
    assert note.startswith("Measured on a virtual machine (xen): ")


@pytest.mark.parametrize(("cpus", "share"), [(None, 0.1), ([0], 0.0), ([1], 0.2), ([0, 1], 0.1)])
def test_steal_is_counted_inside_the_stretch_on_the_cores_in_use(tmp_path, cpus, share):
    write(tmp_path, {"proc/stat": STAT.format(1000, 500, 500, 500, 500, 0), "proc/loadavg": "0.50 0.40 0.30 1/2 3\n"})
    with HostWatch(cpus, root=tmp_path) as host:
        write(tmp_path, {"proc/stat": STAT.format(1180, 520, 600, 500, 580, 20), "proc/loadavg": "1.75 0.4 0.3 1/2 3\n"})
    write(tmp_path, {"proc/stat": STAT.format(2000, 9999, 2000, 9999, 2000, 9999)})
    assert host.seen.steal_share == pytest.approx(share)
    assert host.seen.load_1m == 1.75


def test_a_stretch_in_which_no_tick_passed_has_no_steal(tmp_path):
    write(tmp_path, {"proc/stat": STAT.format(1, 2, 3, 4, 5, 6), "proc/loadavg": "0.5 0.4 0.3 1/2 3\n"})
    with HostWatch(root=tmp_path) as host:
        pass
    assert host.seen.steal_share == 0


def test_this_host_can_be_watched():
    with HostWatch() as host:
        pass
    assert 0 <= host.seen.steal_share <= 1
    assert host.seen.load_1m >= 0


def test_versions_are_those_of_the_extension_and_of_the_library_that_is_loaded(monkeypatch):
    monkeypatch.delenv("ORT_DYLIB_PATH", raising=False)
    import onnxruntime

    record = software_record()
    assert record.ort_version == onnxruntime.__version__
    assert record.commit == machine.build_info().commit


@pytest.mark.parametrize(("name", "version"), [("libonnxruntime.so.1.23.4", "1.23.4"), ("libonnxruntime.so", None)])
def test_a_library_that_was_named_tells_its_version_by_its_name(tmp_path, monkeypatch, name, version):
    monkeypatch.setenv("ORT_DYLIB_PATH", str(tmp_path / name))
    assert software_record().ort_version == version


def test_a_debug_build_is_refused_with_the_command_that_makes_another(monkeypatch):
    build = machine.build_info().model_copy(update={"debug_assertions": False})
    monkeypatch.setattr(recording, "build_info", lambda: build)
    refuse_debug_build()
    monkeypatch.setattr(recording, "build_info", lambda: build.model_copy(update={"debug_assertions": True}))
    with pytest.raises(RefusedError, match="debug build") as caught:
        refuse_debug_build()
    assert (caught.value.code, caught.value.next_step) == ("debug_build", "make build")
