"""The Python of the peers: one environment for all benchmarks, in out/bench/peers."""

import subprocess
import sys
import venv

from _figures import OUT

PEERS = OUT / "peers"
HAS = "import sys; from importlib.metadata import version; [version(name) for name in sys.argv[1:]]"


def python_with(*packages):
    """The Python that has these packages; pip installs what is not there yet."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        venv.create(PEERS, with_pip=True)
    if subprocess.run([python, "-c", HAS, *packages], capture_output=True).returncode:
        print(f"installing {', '.join(packages)} into {PEERS}", file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return python
