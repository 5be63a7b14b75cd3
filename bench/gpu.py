#!/usr/bin/env python3
"""Measure training steps on one GPU: Skep and PyTorch on the same shapes, in one run.

    python bench/gpu.py --steps build/bench/step_times [--case NAME...] [--engine NAME...]
                        [--minutes M] [--turns N] [--json FILE] [--markdown FILE]

Engines take turns, each alone on the device. Every second turn reverses their order, so that a slow
period affects all alike. After M minutes no turn starts. The report has the median, fastest and
slowest step of all turns, tokens per second, model FLOP utilization, and the peak of device memory
beyond static bytes. If an engine fails (out of memory, no PyTorch, no device), the report gives the
reason and the other engines continue. An engine that runs out of memory retries with more
recomputation in backward: Skep first of cheap operations, then of every block, PyTorch of every
block. The report states this.

--engine is skep, eager or compile. --device cpu and --set KEY=VALUE allow a trial of this script
without a GPU. Files are written after every turn.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import gpu_cases

ENGINES = ("skep", "eager", "compile")
TITLES = {"skep": "Skep", "eager": "PyTorch", "compile": "PyTorch, compiled"}
WARM_STEPS = 3
# What an engine recomputes in backward, tried in this order until its memory suffices.
RECOMPUTATION = {"skep": ("none", "selective", "block"), "eager": ("none", "block"),
                 "compile": ("none", "block")}
ERROR_LINES = 3
FOLDER = pathlib.Path(__file__).parent


class Failed(Exception):
    """An engine ended; the text is the reason."""


class Engine:
    """A process that prints a line when it is ready, then one line for each number of steps."""

    def __init__(self, command, environment, seconds):
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, env=environment)
        self.watch = threading.Timer(seconds, self.process.kill)
        self.watch.start()

    def error_text(self):
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors.read().splitlines() if line.strip()]
        return " / ".join(lines[-ERROR_LINES:]) or "no error output"

    def receive(self):
        line = self.process.stdout.readline()
        if not (line.startswith("{") and line.endswith("}\n")):  # it ended, perhaps within a line
            raise Failed(f"exit {self.process.wait()}: {self.error_text()}")
        document = json.loads(line)
        if "failed" in document:
            raise Failed(document["failed"])
        return document

    def steps(self, count):
        try:
            self.process.stdin.write(f"{count}\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise Failed(f"exit {self.process.wait()}: {self.error_text()}") from error
        return self.receive()

    def finish(self):
        self.watch.cancel()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def library_folders():
    """Folders of the cuBLAS that PyTorch installs, for systems without their own."""
    return [str(path) for prefix in sys.path
            for path in pathlib.Path(prefix).glob("nvidia/*/lib") if any(path.glob("libcublasLt*"))]


def skep_command(name, case, recompute, arguments, scratch):
    rows = arguments.rows or case["rows"]
    model = pathlib.Path(scratch) / "config.json"
    model.write_text(json.dumps(case["model"]))
    settings = [f"batch.sequence={case['length']}", f"batch.microbatch={rows}",
                f"batch.tokens={rows * case['length']}", "precision.params=bf16",
                "precision.compute=bf16", f"precision.moments={case['moments']}",
                "optimizer.lr=1e-4", "schedule.kind=constant", "schedule.warmup_steps=0",
                "steps=100000", *arguments.set]
    settings.append(f"strategy.recompute={recompute}")
    return [arguments.steps, str(model), *settings]


def torch_command(name, case_name, recompute, arguments):
    options = {"case": case_name, "compile": name == "compile", "recompute": recompute == "block",
               "device": arguments.device, "rows": arguments.rows}
    return [arguments.python, str(FOLDER / "gpu_torch.py"), json.dumps(options)]


def run_turn(name, case_name, recompute, arguments, seconds):
    """Start an engine, run the warm-up steps, and measure."""
    case = gpu_cases.CASES[case_name]
    folders = [*library_folders(), os.environ.get("LD_LIBRARY_PATH", "")]
    environment = os.environ | {"LD_LIBRARY_PATH": ":".join(filter(None, folders))}
    with tempfile.TemporaryDirectory(prefix="skep-bench-") as scratch:
        command = (skep_command(name, case, recompute, arguments, scratch) if name == "skep"
                   else torch_command(name, case_name, recompute, arguments))
        begin = time.monotonic()
        try:
            engine = Engine(command, environment, seconds)
        except OSError as error:
            raise Failed(f"cannot start: {error}") from error
        try:
            ready = engine.receive()
            engine.steps(WARM_STEPS)
            warm = time.monotonic() - begin
            answer = engine.steps(case["steps"])
            return ready | answer | {"warm_s": warm,
                                     "device_used": device_memory(arguments, "used")}
        finally:
            engine.finish()


def device_memory(arguments, which):
    """Used or total bytes of the device, as nvidia-smi reports them; None when it cannot."""
    if arguments.device != "cuda":
        return None
    try:
        told = subprocess.run(["nvidia-smi", f"--query-gpu=memory.{which}",
                               "--format=csv,noheader,nounits"], capture_output=True, text=True,
                              timeout=20, check=True).stdout
        return int(told.splitlines()[0]) << 20
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


class Measured:
    """The results of all turns of one engine on one case."""

    def __init__(self):
        self.turns, self.failures = [], []
        self.recompute, self.given_up = "none", False
        self.longest_s = 0.0

    def take_turn(self, name, case_name, arguments, left_s):
        begin = time.monotonic()
        try:
            turn = run_turn(name, case_name, self.recompute, arguments, left_s)
            self.turns.append(turn)
        except Failed as failure:
            self.failures.append(f"recompute {self.recompute}: {failure}")
            more = RECOMPUTATION[name][RECOMPUTATION[name].index(self.recompute) + 1:]
            self.given_up = not more or not is_memory(str(failure)) or bool(self.turns)
            self.recompute = self.recompute if self.given_up else more[0]
        self.longest_s = max(self.longest_s, time.monotonic() - begin)


def is_memory(text):
    return "memory" in text.lower() or text.startswith("exit 3")


def summary(name, case_name, measured, arguments, rate):
    """The report of an engine; None when no turn was completed."""
    if not measured.turns:
        return None
    case = gpu_cases.CASES[case_name]
    tokens = (arguments.rows or case["rows"]) * case["length"]
    times = [ms for turn in measured.turns for ms in turn["ms"]]
    step_ms = statistics.median(times)
    flops = gpu_cases.flops_per_token(case) * tokens / step_ms * 1e3
    first, static = measured.turns[0], gpu_cases.static_bytes(case)
    peak = first.get("planned_bytes") or max(turn.get("allocated_bytes", 0)
                                             for turn in measured.turns)
    return {
        "step_ms": step_ms, "fastest_ms": min(times), "slowest_ms": max(times),
        "turn_medians_ms": [statistics.median(turn["ms"]) for turn in measured.turns],
        "tokens_per_s": tokens / step_ms * 1e3, "flops": flops,
        "mfu": flops / rate["promised"] if rate["promised"] else None,
        "share_of_measured": flops / rate["measured"] if rate["measured"] else None,
        "static_bytes": static, "peak_bytes": peak, "beyond_bytes": peak - static if peak else None,
        "reserved_bytes": max(turn.get("reserved_bytes", 0) for turn in measured.turns) or None,
        "device_used": max((turn["device_used"] or 0 for turn in measured.turns)) or None,
        "recompute": measured.recompute, "steps": len(times), "turns": len(measured.turns),
        "first_loss": first["losses"][0], "warm_s": first["warm_s"],
        "parameters": first["parameters"],
        "expected_parameters": gpu_cases.parameters_of(case["model"]),
    }


def number(value, form, scale=1.0):
    return "" if value is None else format(value / scale, form)


def row_text(name, row):
    share = "" if row["mfu"] is None else f"{100 * row['mfu']:.1f} %"
    measured = "" if row["share_of_measured"] is None else f"{100 * row['share_of_measured']:.1f} %"
    title = TITLES[name]
    if row["recompute"] != "none":
        title += f", recompute {row['recompute']}"
    return (f"| {title} | {row['step_ms']:.1f} | {row['fastest_ms']:.1f} to {row['slowest_ms']:.1f}"
            f" | {row['tokens_per_s']:.0f} | {share} | {measured}"
            f" | {number(row['peak_bytes'] or None, '.0f', 2**20)}"
            f" | {number(row['beyond_bytes'], '.0f', 2**20)} |")


def ratios_text(rows):
    """Ratios of Skep to each of the other engines."""
    lines = []
    for name in ("eager", "compile"):
        if rows.get("skep") and rows.get(name):
            ours, theirs = rows["skep"], rows[name]
            line = f"Skep is {theirs['step_ms'] / ours['step_ms']:.2f} times {TITLES[name]}"
            if ours["beyond_bytes"] and theirs["beyond_bytes"]:
                share = ours["beyond_bytes"] / theirs["beyond_bytes"]
                line += f", in {share:.2f} of its memory beyond static bytes"
            lines.append(line + ".")
    return lines


def markdown(document):
    lines = [f"{document['device']}, {document['time']}. Peak rate: {document['rate_text']}.",
             f"MFU: {gpu_cases.FORMULA}."]
    for name, case in document["cases"].items():
        shape = gpu_cases.CASES[name]
        lines += ["", f"**{name}**: {case['rows']} rows of {shape['length']} tokens, static bytes "
                  f"a parameter {gpu_cases.bytes_per_parameter(shape)} on both sides (bf16 2, "
                  f"f32 master 4, f32 gradient 4, {shape['moments']} moments)", "",
                  "| engine | step, ms | fastest to slowest | tokens/s | MFU | of the measured "
                  "rate | peak, MiB | beyond static, MiB |", "|---|---|---|---|---|---|---|---|"]
        lines += [row_text(engine, row) for engine, row in case["engines"].items() if row]
        lines += [""] + ratios_text(case["engines"])
        for engine, failures in case["failures"].items():
            lines += [f"{TITLES[engine]}: {failure}" for failure in failures]
    return "\n".join(lines) + "\n"


def write_files(document, arguments):
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(document))


def rate_of(arguments, device):
    """The peak rates that utilization refers to."""
    measured = None
    if arguments.probe:
        lines = json.loads(arguments.probe.read_text())["lines"]
        found = [line["found"] for line in lines if line["name"] == "bf16 products"]
        measured = found[0] if found else None
    return {"promised": gpu_cases.promised_rate(device), "measured": measured}


def rate_text(rate):
    promised = "unknown for this device" if rate["promised"] is None else \
        f"{rate['promised'] / 1e12:.0f} TFLOP/s by its data sheet"
    measured = "" if rate["measured"] is None else \
        f"; {rate['measured'] / 1e12:.4g} TFLOP/s measured by skep probe"
    return promised + measured


def device_name(arguments):
    if arguments.device != "cuda":
        return arguments.device
    try:
        told = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=20, check=True).stdout
        return told.splitlines()[0].strip()
    except (OSError, IndexError, subprocess.SubprocessError):
        return "a device that nvidia-smi does not name"


def report(document, measured, arguments, rate):
    for case_name, engines in measured.items():
        document["cases"][case_name] = {
            "rows": arguments.rows or gpu_cases.CASES[case_name]["rows"],
            "engines": {name: summary(name, case_name, of, arguments, rate)
                        for name, of in engines.items()},
            "failures": {name: of.failures for name, of in engines.items() if of.failures},
        }
    write_files(document, arguments)


def give_up_what_cannot_fit(measured, arguments):
    """Skip cases whose static bytes exceed device memory; to try each would take minutes."""
    total = device_memory(arguments, "total")
    for case_name, engines in measured.items():
        static = gpu_cases.static_bytes(gpu_cases.CASES[case_name])
        for of in engines.values() if total and static > total else ():
            of.given_up = True
            of.failures.append(f"static bytes alone are {static / 2**30:.1f} GiB, the device has "
                               f"{total / 2**30:.1f} GiB")


def measure(arguments, document, rate):
    """Run the turns, each over all cases. Later turns improve the medians."""
    measured = {case: {name: Measured() for name in arguments.engine} for case in arguments.case}
    give_up_what_cannot_fit(measured, arguments)
    end = time.monotonic() + 60 * arguments.minutes
    for turn in range(arguments.turns):
        for case_name in arguments.case:
            order = arguments.engine if turn % 2 == 0 else arguments.engine[::-1]
            for name in order:
                of = measured[case_name][name]
                left_s = end - time.monotonic()
                if of.given_up or left_s < of.longest_s or left_s <= 0:
                    continue
                print(f"turn {turn + 1}, {case_name}, {name}", file=sys.stderr, flush=True)
                of.take_turn(name, case_name, arguments, left_s)
                while not of.turns and not of.given_up and end > time.monotonic():
                    of.take_turn(name, case_name, arguments, end - time.monotonic())
                report(document, measured, arguments, rate)
    return measured


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", default="build/bench/step_times", help="bench/step_times")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--case", action="append", choices=gpu_cases.CASES)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rows", type=int, help="rows of a batch; default: those of the case")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="a further run key for Skep")
    parser.add_argument("--probe", type=pathlib.Path, help="output of skep probe --json")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.case = arguments.case or list(gpu_cases.REAL_CASES)
    arguments.engine = arguments.engine or list(ENGINES)
    return arguments


def main():
    arguments = parse_arguments()
    device = device_name(arguments)
    rate = rate_of(arguments, device)
    document = {"format": 1, "device": device, "time": time.strftime("%Y-%m-%d %H:%M"),
                "formula": gpu_cases.FORMULA, "rate": rate, "rate_text": rate_text(rate),
                "cases": {}}
    measured = measure(arguments, document, rate)
    report(document, measured, arguments, rate)
    print(markdown(document), end="")
    done = [of for engines in measured.values() for of in engines.values() if of.turns]
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
