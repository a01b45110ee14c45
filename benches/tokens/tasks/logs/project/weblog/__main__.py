import argparse
import sys

from weblog.counts import Counts, table
from weblog.entries import read
from weblog.status import StatusServer


def main():
    parser = argparse.ArgumentParser(prog="weblog")
    parser.add_argument("log")
    parser.add_argument("--serve", type=int, metavar="PORT")
    options = parser.parse_args()
    counts = Counts(read(options.log))
    if options.serve is None:
        sys.stdout.reconfigure(encoding="utf-8")
        print(table(counts))
        return
    with StatusServer(counts, options.serve) as server:
        print(f"http://127.0.0.1:{server.port}/", flush=True)
        server.serve_forever()


main()
