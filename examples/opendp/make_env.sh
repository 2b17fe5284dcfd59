#!/bin/sh
# An environment with OpenDP 0.16.0 and its extra `mbi` (mbi 1.1.0): sh make_env.sh FOLDER (default: .venv beside this file)
set -eu
folder=${1:-$(dirname "$0")/.venv}
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet 'opendp[mbi]==0.16.0' 'mbi==1.1.0' 'pandas==2.3.3'
echo "made $folder; its program is run as $folder/bin/python $(dirname "$0")/mechanism.py"
