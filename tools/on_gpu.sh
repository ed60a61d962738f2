#!/usr/bin/env bash
# Runs the suite on a machine with an NVIDIA GPU that may have no network:
#
#     tools/on_gpu.sh FOLDER PART[:SECONDS]...
#
# PART: parity (outputs of the CUDA backends against float64), or a backend to time, such as torch-cuda or torch.
# It ends after SECONDS (240 by default), and what it has measured by then is written to FOLDER.
# OPTIONS are given to pytest with each backend, as in OPTIONS="--tier gate -k 'not pipeline'".
# Procgen needs libGL.so.1 (libgl1 in Debian). JAX compiles for minutes unless .cache/jax holds what it compiled before.
# Wheels in .whl/, of what the machine's Python lacks, are installed into a folder of their own.
set -u
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?name a folder for results}")
shift
mkdir -p "$out"
python=${PYTHON:-python3}
threads=${THREADS:-$(nproc)}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT

if compgen -G '.whl/*.whl' >/dev/null; then
  "$python" -m pip install --quiet --no-index --no-deps --no-compile --target "$site" .whl/*.whl || exit 1
fi
export PYTHONPATH="$site:$PWD" PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false
[ -s "$out/machine.txt" ] || {
  nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv
  "$python" -c 'import sys, jax, numpy, torch; print(sys.version); print("torch", torch.__version__, "jax", jax.__version__, "numpy", numpy.__version__)'
} 2>&1 | tee "$out/machine.txt"

# Other plugins may import NumPy before threads are set, and other versions than the lock file's warn of other things.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
pytest=("$python" -m pytest -p pytest_benchmark.plugin -p xdist.plugin -p _hypothesis_pytestplugin -p rlgauge.plugin)
pytest+=(-p no:cacheprovider -o filterwarnings=ignore --threads "$threads")
eval "options=(${OPTIONS:-})"

for each in "$@"; do
  IFS=: read -r part seconds <<<"$each"
  limit=(timeout --signal=TERM --kill-after=90 "${seconds:-240}")
  echo "== $part"
  if [ "$part" = parity ]; then
    TORCHINDUCTOR_COMPILE_THREADS=1 "${limit[@]}" "${pytest[@]}" correctness_tests/test_against_reference.py \
      -k "${KEYWORDS:-cuda}" -m "${MARKS:-not slow}" --maxfail "${FAILURES:-15}" --show-capture no \
      --numprocesses "${JOBS:-12}" --threads 1 --tb short -q -rfE --durations 15 2>&1 | tee "$out/parity.txt"
    continue
  fi
  [ -s "$out/limits.json" ] || JAX_PLATFORMS=cpu "$python" -m perf_tests.suite.limits "$threads" | tee "$out/limits.json"
  RLGAUGE_LIMITS=$(cat "$out/limits.json")
  export RLGAUGE_LIMITS
  platforms=cpu
  [[ $part == *cuda ]] && platforms=
  JAX_PLATFORMS=$platforms "${limit[@]}" "${pytest[@]}" perf_tests --benchmark-only --backend "$part" \
    --benchmark-json "$out/$part.json" --benchmark-max-time "${BENCH_SECONDS:-0.3}" -q --tb short -rfE \
    "${options[@]}" 2>&1 | tee "$out/$part.txt"
done
