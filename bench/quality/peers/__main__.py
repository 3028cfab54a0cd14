"""`python -m bench.quality.peers`, with the peers' Python: mine a table, propose subsets, or draw plots.

mine METHOD TABLE.npz SEED JOBS      prints {"rules": [[[feature, op, threshold], …], …], "seconds": …, "cpu": …}
serve METHOD                         reads `TABLE.npz SEED JOBS` lines and prints the output of `mine` or {"failed": …}
search METHOD FEATURES SIZE SEED     prints a subset a line, and reads its score from the next line of its input
draw FIGURE.json FILE.png            draws the plots that the file describes
versions                             prints the versions of the installed peers
unavailable                          prints the miners that are not available, with the reason
"""

import json
import sys
import warnings
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

PEERS = ("imodels", "pysubgroup", "rulekit", "sirus", "wittgenstein", "optuna", "hyperopt")


def main(command: str, *arguments: str) -> None:
    warnings.simplefilter("ignore")
    match command:
        case "mine":
            from bench.quality.peers import miners

            method, table, seed, jobs = arguments
            print(json.dumps(miners.mine(method, Path(table), int(seed), int(jobs))))
        case "serve":
            from bench.quality.peers import miners

            miners.serve(arguments[0])
        case "search":
            from bench.quality.peers import searchers

            method, features, size, seed = arguments
            searchers.SEARCHERS[method](int(features), int(size), int(seed))
        case "draw":
            from bench.quality.peers import drawing

            drawing.draw(json.loads(Path(arguments[0]).read_text()), Path(arguments[1]))
        case "versions":
            print(json.dumps({name: version(name) for name in PEERS if find_spec(name)}))
        case "unavailable":
            from bench.quality.peers import miners

            print(json.dumps(miners.unavailable()))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
