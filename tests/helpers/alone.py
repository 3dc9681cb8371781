"""What failed beside other tests is run once more, alone: `python tests/helpers/alone.py`.

Four processes of tests share two CPUs with all the machines that they start. A test of times that
fails there and passes here is named in large letters, to be mended; many of them are no accident.
"""

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 5
NOTHING_RAN = 5


def main(code, most=MOST):
    """Exit with the code of that first run, unless all that failed passes alone."""
    failed = json.loads(FAILED.read_text("utf-8")) if FAILED.exists() else {}
    if code != 1 or not failed:
        return code
    if len(failed) > most:
        print(f"{len(failed)} failed; up to {most} would be run once more, alone")
        return code
    again = subprocess.run([sys.executable, "-m", "pytest", "-v", "-n", "0", *failed]).returncode
    rule = "!" * 100
    if again == 0:
        print(rule, "FAILED BESIDE OTHER TESTS AND PASSED ALONE (how they failed stands above):",
              *failed, rule, sep="\n")  # fmt: skip
    return again if again != NOTHING_RAN else code


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])))
