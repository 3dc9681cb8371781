#!/bin/bash
# programs: python3
# In place of conda: an environment of pip's, and a command that reads environment.yml as conda's
# would. It solves nothing; a dependency that pip cannot bring is refused.
set -euo pipefail
mkdir -p "$CONDA_DIR/bin" "$CONDA_DIR/etc/profile.d"
python3 -m venv --system-site-packages "$NB_PYTHON_PREFIX"
touch "$CONDA_DIR/etc/profile.d/conda.sh"
cat >"$MAMBA_EXE" <<'END'
#!/usr/bin/python3
import os, subprocess, sys
import yaml

pip = [os.environ["NB_PYTHON_PREFIX"] + "/bin/pip", "--no-cache-dir"]
asked = sys.argv[1:]
if asked[:2] == ["env", "update"]:
    named = yaml.safe_load(open(asked[asked.index("--file") + 1]))["dependencies"]
    words = [word for word in named if isinstance(word, str)]
    odd = [word for word in words if word.split("=")[0] not in ("python", "pip")]
    if odd:
        sys.exit(f"only conda has these: {odd}")
    print("asked for", words, "and found Python", sys.version)
    wanted = [word for each in named if isinstance(each, dict) for word in each["pip"]]
    sys.exit(subprocess.call([*pip, "install", *wanted]))
# A login shell forgets the PATH, and has it from what conda makes for it.
if asked[:2] == ["shell", "hook"]:
    print('mamba() { PATH=$NB_PYTHON_PREFIX/bin:$CONDA_DIR/bin:$PATH; };')
if asked[:1] == ["list"]:
    sys.exit(subprocess.call([*pip, "list"]))
END
chmod 755 "$MAMBA_EXE"
ln -s "$MAMBA_EXE" /usr/local/bin/micromamba
chown -R "$NB_USER:$NB_USER" "$CONDA_DIR"
