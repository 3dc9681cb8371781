"""Failed tests run once more, alone; `tests/again.toml` says which are known for it, and why.

`python tests/helpers/again.py CODE` is the end of `make test`; CODE is how that has ended so far.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "again.toml"
FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 5
"""With more failures on no list something is broken, and to run them again says nothing."""
RULE = "!" * 100


def listed(path=LIST):
    """The reason of each test on the list, by the test's name without its parameters."""
    return {one["test"]: one["why"] for one in tomllib.loads(path.read_text("utf-8"))["again"]}


def failed():
    """What failed in the last run."""
    return set(json.loads(FAILED.read_text("utf-8"))) if FAILED.exists() else set()


def main(code, reasons):
    """Exit with 0 if all that failed passes alone, else with `code`; what is on no list is few."""
    first = failed() if code == 1 else set()
    unlisted = {test for test in first if test.partition("[")[0] not in reasons}
    if not first or len(unlisted) > MOST:
        print(
            f"{len(unlisted)} failed that are on no list" if first else "", end="\n" * bool(first)
        )
        return code
    subprocess.run([sys.executable, "-m", "pytest", "-v", "-n", "0", "--last-failed"])
    passed = first - failed()
    for test in sorted(passed):
        why = reasons.get(test.partition("[")[0], "it is on no list: mend it")
        print(RULE, "FAILED BESIDE OTHER TESTS AND PASSED ALONE (how it failed stands above):",
              test, why, RULE, sep="\n")  # fmt: skip
    return 0 if passed == first else code


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), listed(Path(sys.argv[2]) if sys.argv[2:] else LIST)))
