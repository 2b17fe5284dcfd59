#!/bin/sh
# An environment with dpmm 0.1.9, which needs NumPy 1.26: sh make_env.sh FOLDER (default: .venv beside this file)
set -eu
folder=${1:-$(dirname "$0")/.venv}
python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet 'dpmm==0.1.9' 'numpy==1.26.4' 'pandas==2.1.0' 'opendp==0.12.1'
echo "made $folder; its program is run as $folder/bin/python $(dirname "$0")/mechanism.py"
