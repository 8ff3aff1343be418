"""``python -m bisect_diverge`` is the command ``bd``."""

from bisect_diverge.cli.main import main

if __name__ == "__main__":
    main()
