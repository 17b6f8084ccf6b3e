"""`python -m crosstalk quickstart`: the first figure; `train STUDY`: PyTorch models of a study; `arrays`: data of another form; the rest is the program's."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys

from . import ConfigError, DeviceError, StoreError, _core
from .studies import STOPPED, program


#: Options of `crosstalk run` that choose runs, which the program reads.
CHOOSING = {
    "set": ("KEY=VALUE", "replace a key; KEY=A,B makes an axis; seeds=1,2,3 replaces the seeds"),
    "where": ("KEY=VALUE", "only runs that match"),
    "only": ("RUNID", "only this run; the beginning of an id is enough"),
    "shard": ("I/N", "only the I-th of N parts of the study"),
    "chosen-of": ("STORE", "only runs at the best values of --best among the runs of STORE"),
    "best": ("KEY,KEY", "of --chosen-of and --rates-short: the keys whose value is chosen"),
    "best-by": ("WHAT", "of --best: loss (default) or accuracy, of validation"),
    "rates-short": ("SHARE", "first choose rates and decays by one seed and this share of the steps, into STORE-rates"),
    "max-runs": ("N", "refuse a study of more runs than this"),
}


#: What a process for each device runs; it finds the package where this one did.
ONE = "import sys; sys.path[:] = {path!r}; from crosstalk.__main__ import main; sys.exit(main(sys.argv[1:]))"


def devices_of(text: str) -> list[str]:
    """The devices of processes of their own: of "cuda:all", "cuda:0,1" and "cpu:all:N", as crosstalk run has them; else none."""
    if text == "cuda:all":
        import torch

        if torch.cuda.device_count() == 0:
            raise DeviceError("--device cuda:all: torch sees no GPU")
        return [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    kind, _, rest = text.partition(":")
    if kind == "cuda" and "," in rest:
        return [f"cuda:{i}" for i in rest.split(",")]
    if text.startswith("cpu:all:") and text[8:].isdigit():
        return ["cpu"] * int(text[8:])
    return []


def on_each(devices: list[str], words: list[str], threads: int) -> int:
    """`words` once more in a process for each device, which share the runs; the gravest of their exit codes."""
    call = [sys.executable, "-c", ONE.format(path=sys.path)]
    children: list[subprocess.Popen[bytes]] = []

    def stop(*_: object) -> None:  # a terminal tells them by itself; SIGTERM does not count as a second Ctrl-C
        for child in children:
            child.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    for device in devices:
        more = ["--device", device] + (["--threads", str(threads)] if threads else [])
        children.append(subprocess.Popen([*call, *words, *more], stdout=subprocess.DEVNULL if children else None))  # the store's path, once
    codes = [STOPPED if code < 0 else code for code in (child.wait() for child in children)]
    return next((code for code in (3, 4, 2, STOPPED, 1) if code in codes), max(codes))


def main(words: list[str]) -> int:
    if words and words[0] == "arrays":
        from .conversion import main as arrays

        return arrays(words[1:])
    if not words or words[0] not in ("quickstart", "train", "verify"):
        os.execv(program(), ["crosstalk", *words])
    parser = argparse.ArgumentParser(prog=f"python -m crosstalk {words[0]}", description=None, allow_abbrev=False)
    if words[0] == "quickstart":
        parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as crosstalk run has it")
    else:
        parser.add_argument(
            "--device", default="cpu",
            help="cpu (default), cuda, cuda:N, or auto: a GPU if there is one; of train also cuda:all and cuda:0,1: a process for each GPU",
        )  # fmt: skip
    if words[0] != "verify":
        parser.add_argument("--quiet", action="store_true", help="no progress; failures and warnings only")
    if words[0] == "train":
        parser.add_argument("study", help='a study with PyTorch models ([memories.NAME] with name = "python"), or a store: all that was asked of it')
        choosing = parser.add_argument_group("which runs, as crosstalk run has it")
        for name, (value, told) in CHOOSING.items():
            choosing.add_argument(f"--{name}", action="append", default=[], metavar=value, help=told)
        choosing.add_argument("--seeds", metavar="A,B", help="the same as --set seeds=A,B")
        parser.add_argument("--failed", action="store_true", help="train failed runs again, as crosstalk retry does")
        parser.add_argument("--out", metavar="STORE", help="folder of the results (default ./runs/<study>)")
        parser.add_argument("--threads", type=int, default=0, metavar="N", help="threads of PyTorch (default: as it takes them)")
        parser.add_argument("--replicas", type=int, default=16, help="runs side by side at most (default 16)")
        parser.add_argument("--time-limit", metavar="TIME", help="stop after this time (90, 30m, 2h, HH:MM:SS) with exit code 75")
        parser.add_argument("--keep-going", action="store_true", help="record a run whose model raises an exception as failed, and go on")
        parser.add_argument("--lease", type=float, default=60, metavar="SECONDS", help="take over the runs of a process elsewhere after this time (default 60)")
    elif words[0] == "verify":
        parser.add_argument("store", help="a store with records of PyTorch models")
        parser.add_argument("-n", type=int, default=4, help="how many to train again (default 4)")
        parser.add_argument("--records", action="store_true", help=argparse.SUPPRESS)
        parser.add_argument("--only", action="append", default=[], help=argparse.SUPPRESS)
    given = parser.parse_args(words[1:])

    try:
        if words[0] == "quickstart":
            from .quickstart import quickstart

            sets: dict[str, str] = {}
            for key, value in (word.split("=", 1) for word in given.set):
                if sets.setdefault(key, value) != value:
                    raise ValueError(f"--set {key}={value}: {key} is set already, by --set {key}={sets[key]}; keep one of the two")
            print(quickstart(sets, given.quiet))
            return 0
        from .training import How, train_by_words
        from .verifying import verify, verify_for_program

        if words[0] == "verify":
            if given.records:
                verify_for_program(given.store, given.only, given.device)
                return 0
            return 0 if verify(given.store, given.n, device=given.device) else 1
        if devices := devices_of(given.device):
            threads = given.threads or (_core.cores() if devices[0] == "cpu" else 0)
            return on_each(devices, words, max(1, threads // len(devices)) if devices[0] == "cpu" else threads)
        if given.threads:
            import torch

            torch.set_num_threads(given.threads)
        chosen = [w for name in CHOOSING for value in getattr(given, name.replace("-", "_")) for w in (f"--{name}", value)]
        chosen += ["--set", f"seeds={given.seeds}"] if given.seeds is not None else []
        how = How(given.device, given.replicas, given.quiet, given.failed, given.keep_going, given.lease)
        result = train_by_words(given.study, chosen, None, how, given.out, given.time_limit)
        if result.stopped:
            return STOPPED
        if result.store != given.study:
            print(result.store)
        return 1 if result.failed else 0
    except KeyboardInterrupt as stop:
        print(f"crosstalk: {stop}", file=sys.stderr)
        return STOPPED
    except (ConfigError, StoreError, DeviceError, ImportError, ValueError) as error:
        print(f"crosstalk: error: {error}", file=sys.stderr)
        return {StoreError: 3, DeviceError: 4}.get(type(error), 2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
