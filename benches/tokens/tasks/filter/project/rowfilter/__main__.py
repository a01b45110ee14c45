import sys

from rowfilter.cli import main

sys.exit(main(sys.argv[1:]))
