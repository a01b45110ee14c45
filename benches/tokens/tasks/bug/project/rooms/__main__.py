import sys

from rooms.cli import main

sys.exit(main(sys.argv[1:]))
