"""Opens `bd walk` on two invented runs: to look at the screens without recording anything.

python benchmarks/walk_demo.py [RECORDS] [THEME]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bisect_diverge.tui.app import walk
from bisect_diverge.tui.commands import Commands
from tests.tui.fake import FakeComparison


def main() -> int:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    odd = {size // 2 + 10: 2, size // 2 + 11: 3, size // 2 + 12: 4} if size > 100 else {}
    comparison = FakeComparison(
        size, first=size // 10 if size else -1, states_at=odd, layers=12, failing=[size // 10 + 4]
    )
    return walk(comparison, Commands("runs/base", "runs/t16"), theme=(sys.argv[2:] or ["dark"])[0])


if __name__ == "__main__":
    sys.exit(main())
