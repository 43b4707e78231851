#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_docs.sh: whether what the documents name is there (`./do docs`), and whether the check would notice if it were not.
set -euo pipefail
check=$(dirname "${BASH_SOURCE[0]}")/check_docs.py
python3 "$check" --self-test
python3 "$check"
