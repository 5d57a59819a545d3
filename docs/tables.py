"""The tables of README and of the pages about measurements, made of files in bench/results.

A page has `<!-- table NAME -->` above a table and `<!-- end -->` below it; what is between them is made here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from statistics import geometric_mean, median
from typing import Any

import network_tables
from results import Result, every, newest, number, table

from kvrm.lane.words import TABLE

G, M = 1e9, 1e6
LANES = 131072
PROFILED = 65536
"""Lanes of a profiled launch where its file does not say it."""
PEERS = {"kvrm": "KVRM", "qemu": "QEMU", "native": "native"}


def headline() -> Iterator[str]:
    """README's: a row for each thing that a user waits for."""
    programs, real, start = newest("programs", engine="default"), newest("real"), newest("start")
    campaign, sha = newest("campaign"), newest("functions")
    gpu = newest("gpu", f"campaign {LANES}")
    parser = newest("parser", documents=4 * LANES)
    whole = {peer: _mean(programs, "whole_ips", peer) for peer in PEERS}
    qemu_start = median(median(p["start"]["qemu"]["wall"]) for p in programs["programs"])
    means = real["geometric_means"]["all"]
    runs = {name: rate["wall"] for name, rate in campaign["runs_per_second"].items()}
    rows = [
        (
            f"{len(programs['programs'])} benchmark programs, instructions a second",
            f"{number(whole['kvrm'] / M)} M",
            f"QEMU {number(whole['qemu'] / M)} M, native code {number(whole['native'] / M)} M",
            programs.machine,
        ),
        (
            f"{len(real['programs'])} command lines of busybox, bash and klibc, speed over QEMU's",
            f"{means['qemu/kvrm']:.2f}",
            f"new program {means['qemu/kvrm-new']:.2f}, empty cache {means['qemu/kvrm-cold']:.2f}",
            real.machine,
        ),
        (
            "start of a small program",
            f"{median(start['later_wall']):.2f} s",
            f"first start {start['first_wall']:.2f} s, QEMU {qemu_start:.2f} s",
            start.machine,
        ),
        (
            f"fresh runs of {campaign['instructions']:,} instructions a second, one thread",
            number(runs["kvrm, 1 thread"]),
            f"Unicorn from Python {number(runs['unicorn, Python'])}",
            campaign.machine,
        ),
        (
            f"the same in {LANES:,} lanes",
            f"{number(gpu[f'campaign {LANES}']['runs_per_second'] / M)} M",
            "",
            gpu.machine,
        ),
        (
            f"JSON records parsed a second in {LANES:,} lanes",
            f"{number(parser['documents_per_second'] / M)} M",
            f"QEMU on {parser['qemu_cores']} cores {number(parser['qemu_documents_per_second'] / M)} M",
            parser.machine,
        ),
        (
            f"SHA-256 in {LANES:,} lanes, instructions a second",
            f"{number(sha['sha256 tiered']['rate'] / G)} G",
            "",
            sha.machine,
        ),
    ]
    yield from table(["what", "KVRM", "for comparison", "on"], rows, left=4)


def _mean(result: Result, rate: str, peer: str) -> float:
    return geometric_mean(p[rate][peer]["wall"] for p in result["programs"])


def programs() -> Iterator[str]:
    """Instructions a second of whole processes, without start-up, and in the first second."""
    result = newest("programs", engine="default")
    rows = []
    for p in result["programs"]:
        whole, steady = (
            {peer: p[rate][peer]["wall"] for peer in PEERS} for rate in ("whole_ips", "steady_ips")
        )
        first = (number(p["first_second"][peer]["retired"] / M) for peer in ("kvrm", "qemu"))
        rows.append((p["name"], *_speeds(whole, steady), *first))
    whole, steady = (
        {peer: _mean(result, rate, peer) for peer in PEERS} for rate in ("whole_ips", "steady_ips")
    )
    rows.append(("mean", *_speeds(whole, steady), "", ""))
    titles = ["M a second", *PEERS.values(), "KVRM over QEMU", "steady", "first second: KVRM", "QEMU"]
    yield from table(titles, rows)
    yield from result.source


def _speeds(whole: dict[str, float], steady: dict[str, float]) -> list[str]:
    gains = (rates["kvrm"] / rates["qemu"] for rates in (whole, steady))
    return [*(number(whole[peer] / M) for peer in PEERS), *(f"{gain:.2f}" for gain in gains)]


def real() -> Iterator[str]:
    """QEMU's seconds by KVRM's for each group of command lines."""
    result = newest("real")
    titles = ["group", "command lines", "wall", "CPU seconds", "new program", "empty cache"]
    keys = ["qemu/kvrm", "by cpu", "qemu/kvrm-new", "qemu/kvrm-cold"]
    rows = []
    for group, means in result["geometric_means"].items():
        count = sum(group in ("all", p["group"]) for p in result["programs"])
        rows.append((group, str(count), *(f"{means[key]:.2f}" for key in keys)))
    yield from table(titles, rows)
    yield from result.source


def start() -> Iterator[str]:
    """Seconds of a first start and of later ones, and memory."""
    result = newest("start")
    rows = [
        ("first start, empty cache", f"{result['first_wall']:.3f} s"),
        ("later starts, median", f"{median(result['later_wall']):.3f} s"),
        ("largest resident size", f"{result['resident_small'] / 2**20:.0f} MiB"),
        ("the same of a guest that touches 10 MiB", f"{result['resident_10_mib'] / 2**20:.0f} MiB"),
    ]
    yield from table([f"`{result['program']}`", ""], rows)
    yield from result.source


def campaign() -> Iterator[str]:
    """Fresh runs a second on the CPU."""
    result = newest("campaign")
    rates = {name: rate["wall"] for name, rate in result["runs_per_second"].items()}
    yield from table(
        [f"fresh runs of {result['instructions']:,} instructions", "a second"],
        [
            (name.replace("kvrm", "KVRM").replace("unicorn, ", "Unicorn from "), number(n))
            for name, n in rates.items()
        ],
    )
    yield from result.source


def lanes(cores: int) -> Iterator[str]:
    """Ordinary programs in lanes of that many cores and of one, beside QEMU."""
    result = newest("lanes", threads=cores)
    threads, one, qemu = f"{cores} threads", "1 thread", "qemu"
    rows = {name: found["peers"] for name, found in result["programs"].items()}
    yield from table(
        [
            "runs a second",
            "KVRM",
            "over 1 thread",
            "QEMU",
            "over QEMU",
            "M instructions a CPU second",
            "of 1 thread",
        ],
        [
            [
                name,
                number(peers[threads]["runs_per_second"]),
                f"{peers[threads]['over'][one]:.2f}",
                number(peers[qemu]["runs_per_second"]),
                f"{peers[threads]['over'][qemu]:.1f}",
                *(number(peers[way]["instructions_per_cpu_second"] / M) for way in (threads, one)),
            ]
            for name, peers in rows.items()
        ],
    )
    yield from result.source


def gpu() -> Iterator[str]:
    """Programs on a GPU with regions and interpreted."""
    result = newest("gpu")
    found = [re.fullmatch(r"(\w+) tiered (\d+)", key) for key in result.data]
    rows = []
    for program, lanes in (match.groups() for match in found if match):
        ways = [result.data.get(f"{program} {way} {lanes}") for way in ("tiered", "interpreter")]
        rows.append((program, f"{int(lanes):,}", *(number(way["rate"] / G) if way else "" for way in ways)))
    yield from table(["G instructions a second", "lanes", "regions", "interpreted"], rows)
    yield from result.source


def gpu_campaign() -> Iterator[str]:
    """Fresh runs a second on a GPU."""
    result = newest("gpu", f"campaign {LANES}")
    rows = []
    for key, run in result.data.items():
        if match := re.fullmatch(r"campaign(, inputs on the device)? (\d+)", key):
            inputs = "GPU" if match[1] else "host"
            rates = [run["runs_per_second_of_kernel"], run["runs_per_second"]]
            rows.append((f"{int(match[2]):,}", inputs, *(number(rate / M) for rate in rates)))
    yield from table(
        ["runs at once", "inputs in the memory of the", "M runs a second in the kernel", "from Python"], rows
    )
    yield from result.source


def functions() -> Iterator[str]:
    """Functions of a program on data of each lane's own."""
    result = newest("functions")
    rows = []
    for name in ("crc", "sha256", "sort", "strcasecmp"):
        tiered, interpreted = result[f"{name} tiered"], result[f"{name} interpreter"]
        rates = [number(way["rate"] / G) for way in (tiered, interpreted)]
        calls = f"{number(tiered['calls_per_second'] / M)} M"
        rows.append((name, f"{tiered['instructions_per_lane']:,.0f}", *rates, calls))
    titles = ["function", "instructions of a call", "regions, G a second", "interpreted, G a second"]
    yield from table([*titles, "calls a second from Python"], rows)
    yield from result.source


def divergence() -> Iterator[str]:
    """Rates where the lanes of a warp go different ways."""
    result = newest("functions")
    ways = {"regions": "tiered", "interpreted": "interpreter"}
    paths = [match[1] for key in result.data if (match := re.fullmatch(r"(\d+) paths", key))]
    rows = [
        [name, *(number(result[f"{count} paths"][way]["rate"] / G) for count in paths)]
        for name, way in ways.items()
    ]
    yield from table(["G instructions a second; paths in a warp:", *paths], rows)
    yield from result.source


def parser() -> Iterator[str]:
    """A parser on a GPU, and QEMU on all cores of its host."""
    results = [newest("parser", documents=each * LANES) for each in (4, 1)]
    rows = []
    for r in results:
        ours, qemu = r["documents_per_second"], r["qemu_documents_per_second"]
        rows.append(
            (
                str(r["documents"] // r["lanes"]),
                number(r["kernel_instructions_per_second"] / G),
                number(ours),
                number(qemu),
                f"{ours / qemu:.1f}",
                number(r["device_bytes_per_lane"]),
            )
        )
    titles = ["records of each lane", "G instructions a second in the kernel", "records a second"]
    qemu = f"QEMU on {results[0]['qemu_cores']} cores"
    yield from table([*titles, qemu, "KVRM over QEMU", "bytes of device memory a lane"], rows)
    for r in results:
        yield from r.source


COUNTERS: dict[str, Callable[[dict[str, float], int], str]] = {
    "warp instructions issued for each lane": lambda c, lanes: number(c["smsp__inst_executed.sum"] / lanes),
    "lanes active in one": lambda c, _: number(c["smsp__thread_inst_executed_per_inst_executed.ratio"]),
    "issue slots used": lambda c, _: f"{c['smsp__issue_active.avg.pct_of_peak_sustained_active']:.1f} %",
    "cycles a warp waits for code, for each instruction issued": lambda c, _: _stalled(c, "no_instruction"),
    "for memory": lambda c, _: _stalled(c, "long_scoreboard"),
    "for other warps": lambda c, _: _stalled(c, "barrier"),
    "bytes of device memory moved for each lane": lambda c, lanes: number(c["dram__bytes.sum"] / lanes),
    "kernel time for 1,000 lanes": lambda c, lanes: f"{c['gpu__time_duration.sum'] / lanes / 1000:.2f} ms",
}


def _stalled(counters: dict[str, float], why: str) -> str:
    return f"{counters[f'smsp__average_warps_issue_stalled_{why}_per_issue_active.ratio']:.1f}"


def counters() -> Iterator[str]:
    """What the profiler counted for the parser, at commits on the way to where it is."""
    results = every("gpu-counters")
    runs = [run for result in results for run in result["runs"]]
    lanes = [run.get("lanes", PROFILED) for run in runs]
    rows = [
        (what, *(count(run["counters"], n) for run, n in zip(runs, lanes, strict=True)))
        for what, count in COUNTERS.items()
    ]
    yield from table(
        ["commit", *(run["commit"][:7] for run in runs)], [("lanes", *(f"{n:,}" for n in lanes)), *rows]
    )
    for result in results:
        yield from result.source


def region_sizes() -> Iterator[str]:
    """How fast the parser runs by the most instructions that a region may have."""
    result = newest("gpu-regions")
    best = {run["largest"]: (run["regions"], max(run["rates"])) for run in result["runs"]}
    rows = [
        ("regions", *(str(regions) for regions, _ in best.values())),
        ("G instructions a second", *(number(rate) for _, rate in best.values())),
    ]
    yield from table(["most instructions of a region", *(f"{size:,}" for size in best)], rows)
    yield from result.source


def wavefront() -> Iterator[str]:
    """What launching regions one at a time would cost at least."""
    result = newest("wavefront")
    launches = result["launches"]
    rows = [
        ("the one kernel", f"{result['one_kernel_seconds'] * 1000:.1f} ms"),
        ("launches, one for each region that lanes pass to", f"{launches:,.0f}"),
        ("sorting the lanes before each", f"{result['sort_seconds'] * launches * 1000:.0f} ms"),
        (
            "the launches, each with registers going out and in",
            f"{result['launch_seconds'] * launches * 1000:.0f} ms",
        ),
    ]
    yield from table([f"{result['lanes']:,} lanes of the parser", ""], rows)
    yield from result.source


def endings() -> Iterator[str]:
    """What it costs that lanes exit, fault, or go on on the CPU."""
    if not any(result.data["source"] == "src/kvrm" for result in every("endings")):
        yield "Not measured on a GPU yet: `python bench/run_endings.py`."
        return
    result = newest("endings", source="src/kvrm")
    rows = [
        (
            {"exit": "exit", "fault": "fault", "leave": "go on on the CPU"}[case["ending"]],
            f"{case['lanes']:,}",
            number(median(case["seconds"]) * 1000),
            number(median(case["kernel_seconds"]) * 1000),
            f"{case['copies']:,}",
            number(case["bytes_copied"] / M),
        )
        for case in result["cases"]
    ]
    titles = ["all lanes", "lanes", "ms from Python", "ms in kernels", "copies from the device", "MB copied"]
    yield from table(titles, rows)
    yield from result.source


def gpu_checks() -> Iterator[str]:
    """Tests on a GPU, and how they went."""
    rows = []
    for kind in ("gpu-tests", "gpu-sanitizer"):
        for result in every(kind):
            for run in result.data.get("runs", result.data.get("commands")):
                commit = run.get("commit", result.data.get("commit"))[:7]
                rows.append((f"`{run['command']}`", _outcome(run), commit, f"`{result.name}`"))
    yield from table(["command", "outcome", "commit", "file in `bench/results`"], rows, left=4)
    yield from ["", f"All on an {every('gpu-tests')[-1].machine}."]


def _outcome(run: dict[str, Any]) -> str:
    if "outcome" in run:
        return str(run["outcome"])
    counted = ("passed", "skipped", "failed", "errors", "cases", "differences")
    return ", ".join(f"{run[what]:,} {what}" for what in counted if what in run)


def lane() -> Iterator[str]:
    """The words of a lane's state."""
    rows = [
        (str(part.offset), f"`{part.name}`", f"{part.elements} x {part.size}", part.what) for part in TABLE
    ]
    yield from table(["offset", "name", "bytes", "what"], rows, left=4)


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "lane": lane,
    "headline": headline,
    "programs": programs,
    "real": real,
    "start": start,
    "campaign": campaign,
    "lanes-2": partial(lanes, 2),
    "lanes-16": partial(lanes, 16),
    "gpu": gpu,
    "gpu-campaign": gpu_campaign,
    "functions": functions,
    "divergence": divergence,
    "parser": parser,
    "counters": counters,
    "region-sizes": region_sizes,
    "wavefront": wavefront,
    "endings": endings,
    "gpu-checks": gpu_checks,
    **network_tables.TABLES,
}
"""Name in a page to the function that makes the lines."""
BLOCK = re.compile(r"(<!-- table ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """The text of a page with its tables as they are now; KeyError where one is not known."""
    return BLOCK.sub(lambda m: m[1] + "\n" + "\n".join(TABLES[m[2]]()) + "\n\n" + m[3], page)
