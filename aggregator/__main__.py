"""`python -m aggregator` is the same as the command `aggregator`."""

from aggregator.cli.main import main

if __name__ == "__main__":
    main()
