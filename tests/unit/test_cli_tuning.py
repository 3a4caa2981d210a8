"""What `flyball doctor` says of a kernel that shows this or that; the machine that runs the tests has no part in it."""

import resource

import pytest

from flyball.cli import tuning
from flyball.native import machine as native_machine

TIGHT = {
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
    "proc/meminfo": "MemTotal: 8 kB\nSwapCached: 0 kB\nSwapTotal:  3000000 kB\nSwapFree:  1000000 kB\n",
}
EASY = {
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
    "proc/meminfo": "SwapTotal: 100 kB\nSwapFree: 100 kB\n",
}


def kernel(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(("files", "good"), [(TIGHT, False), (EASY, True)], ids=["tight", "easy"])
def test_doctor_judges_huge_pages_governor_and_swap_and_tells_what_fixes_them(tmp_path, files, good):
    root = kernel(tmp_path, files)
    found = [tuning.huge_pages(root), tuning.governor(root, [0, 1]), tuning.swap(root)]
    assert [finding.good for finding in found] == [good] * 3
    fixes = ["transparent_hugepage/enabled", "cpupower frequency-set -g performance", "swapoff -a"]
    for finding, fix in zip(found, fixes, strict=True):
        assert (fix in finding.fix) is not good
    assert ("2,048 MB in use" in found[2].found) is not good


def test_doctor_says_nothing_of_what_the_kernel_does_not_show(tmp_path):
    assert tuning.huge_pages(tmp_path) is tuning.governor(tmp_path, [0]) is tuning.swap(tmp_path) is None


@pytest.mark.parametrize(
    ("quota", "good", "words"),
    [
        (None, None, ""),
        (4.0, None, ""),
        (9.5, None, ""),
        (2.0, True, ""),
        (2.5, False, "--cpus 3"),
        (0.5, False, "--cpus 1"),
    ],
)
def test_doctor_asks_for_whole_cores_where_the_quota_has_a_fraction_that_no_lane_uses(quota, good, words):
    machine = native_machine.machine().model_copy(update={"cpus": [0, 1, 2, 3], "cpu_quota": quota})
    finding = tuning.quota(machine)
    assert (finding and finding.good) is good
    assert words in (finding.fix if finding else "")


@pytest.mark.parametrize(("files_max", "good"), [(4351, False), (4352, True), (resource.RLIM_INFINITY, True)])
def test_doctor_wants_an_open_file_for_every_connection_and_some_more(files_max, good):
    finding = tuning.open_files(files_max, 4096)
    assert finding.good is good
    assert ("ulimit -n 4352" in finding.fix) is not good
