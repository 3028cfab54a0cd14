"""`python -m bench.quality.peers`, with the peers' Python: mine a table, propose subsets, or draw plots.

mine METHOD TABLE.npz SEED JOBS      prints {"rules": [[[feature, op, threshold], …], …], "seconds": …, "cpu": …}
search METHOD FEATURES SIZE SEED     prints a subset a line, and reads its score from the next line of its input
draw FIGURE.json FILE.png            draws the plots that the file describes
versions                             prints the version of each peer
"""

import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

PEERS = ("imodels", "pysubgroup", "optuna", "hyperopt")


def main(command: str, *arguments: str) -> None:
    warnings.simplefilter("ignore")
    match command:
        case "mine":
            from bench.quality.peers import miners

            method, table, seed, jobs = arguments
            print(json.dumps(miners.mine(method, Path(table), int(seed), int(jobs))))
        case "search":
            from bench.quality.peers import searchers

            method, features, size, seed = arguments
            searchers.SEARCHERS[method](int(features), int(size), int(seed))
        case "draw":
            from bench.quality.peers import drawing

            drawing.draw(json.loads(Path(arguments[0]).read_text()), Path(arguments[1]))
        case "versions":
            print(json.dumps({name: version(name) for name in PEERS}))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
