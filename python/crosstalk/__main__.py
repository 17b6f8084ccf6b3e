"""`python -m crosstalk quickstart`: the first figure; `train STUDY`: PyTorch models of a study; `arrays`: data of another form; the rest is the program's."""
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import os
import sys

from . import ConfigError, DeviceError, StoreError
from .studies import STOPPED, program


def main(words: list[str]) -> int:
    if words and words[0] == "arrays":
        from .conversion import main as arrays

        return arrays(words[1:])
    if not words or words[0] not in ("quickstart", "train", "verify"):
        os.execv(program(), ["crosstalk", *words])
    parser = argparse.ArgumentParser(prog=f"python -m crosstalk {words[0]}", description=None)
    if words[0] != "quickstart":
        parser.add_argument("--device", default="cpu", help="cpu (default), cuda or cuda:N")
    if words[0] != "verify":
        parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as crosstalk run has it")
        parser.add_argument("--quiet", action="store_true")
    if words[0] == "train":
        parser.add_argument("study", help="a study with PyTorch models ([memories.NAME] with name = \"python\")")
        parser.add_argument("--out", metavar="STORE", help="folder of the results (default ./runs/<study>)")
        parser.add_argument("--replicas", type=int, default=16, help="runs side by side at most (default 16)")
    elif words[0] == "verify":
        parser.add_argument("store", help="a store with records of PyTorch models")
        parser.add_argument("-n", type=int, default=4, help="how many to train again (default 4)")
    given = parser.parse_args(words[1:])
    try:
        if words[0] == "verify":
            from .verifying import verify

            return 0 if verify(given.store, given.n, device=given.device) else 1
        sets: dict[str, str] = {}
        for key, value in (word.split("=", 1) for word in given.set):
            if sets.setdefault(key, value) != value:
                raise ValueError(f"--set {key}={value}: {key} is set already, by --set {key}={sets[key]}; keep one of the two")
        if words[0] == "quickstart":
            from .quickstart import quickstart

            print(quickstart(sets, given.quiet))
            return 0
        from .training import train

        result = train(
            given.study, set=sets, out=given.out, device=given.device, replicas=given.replicas, quiet=given.quiet
        )
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
