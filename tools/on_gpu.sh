#!/usr/bin/env bash
# Runs the suite on a machine with an NVIDIA GPU that may have no network:
#
#     tools/on_gpu.sh FOLDER PART[:SECONDS]...
#
# PART is one of
#   parity   compare the outputs of the CUDA backends with float64; JAX and torch keep what they compile in .cache/
#   claims   measure the claims named in CLAIMS, for example CLAIMS="snake-gpu snake-amp"
#   BACKEND  time a backend, such as torch-cuda, jax-cuda or torch
#   forms    time the forms that need a GPU: TF32, float16 with a scaled loss, CUDA graphs
# A part ends after SECONDS (default: 240), and its results so far are written to FOLDER. The exit code is 1 if a part
# fails or is ended.
# OPTIONS are passed to pytest for each backend, for example OPTIONS="--workload snake". The tier is bench by default; the
# tier gate has no benchmarks for a GPU. This takes at most 12 minutes, or a little more if a limit ends a compilation:
#
#     tools/on_gpu.sh FOLDER parity:240
#     tools/on_gpu.sh FOLDER torch-cuda:100 torch-compile-cuda:120 jax-cuda:110 forms:100
#     OPTIONS="--op ppo,impala" tools/on_gpu.sh FOLDER torch:50
#
# Wheels in .whl/ and Debian packages in .gl/ (Procgen needs libGL.so.1) are unpacked into a temporary folder. To get them:
#
#     pip download --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
#       --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 -d .whl NAME==VERSION...
#     (cd .gl && apt-get download libgl1 libglvnd0 libglx0 libx11-6)
#
# Needs torch, JAX, the other dependencies of this repository, and nvidia-ml-py (for mario-gpu-utilisation).
set -uo pipefail
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
for package in .gl/*.deb; do
  [ -e "$package" ] && dpkg -x "$package" "$site/gl"
done
export LD_LIBRARY_PATH="$site/gl/usr/lib/x86_64-linux-gnu:${LD_LIBRARY_PATH:-}"
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

failed=0
for each in "$@"; do
  IFS=: read -r part seconds <<<"$each"
  limit=(timeout --kill-after=90 "${seconds:-240}") # a program does not react to TERM while it compiles
  echo "== $part"
  if [ "$part" = parity ]; then
    TORCHINDUCTOR_COMPILE_THREADS=1 timeout --kill-after=15 "${seconds:-240}" "${pytest[@]}" correctness_tests/test_against_reference.py \
      correctness_tests/pirl/test_against_reference.py \
      -k "${KEYWORDS:-cuda}" -m "${MARKS:-not slow}" --maxfail "${FAILURES:-15}" --show-capture no \
      --numprocesses "${JOBS:-12}" --threads 1 --tb short -v -rfE --durations 15 2>&1 | tee "$out/parity.txt" || failed=1
    grep -q PASSED "$out/parity.txt" || exit 1
    continue
  fi
  if [ "$part" = claims ]; then
    read -ra claims <<<"${CLAIMS:?name claims}"
    PYTEST_ADDOPTS="-o filterwarnings=ignore" PYTEST_PLUGINS=pytest_benchmark.plugin,rlgauge.plugin "${limit[@]}" "$python" -m perf_tests.claims \
      "${claims[@]/#/--only=}" --minutes 0 --output "$out/claims.json" 2>&1 | tee "$out/claims.txt" || failed=1
    continue
  fi
  [ -s "$out/limits.json" ] || JAX_PLATFORMS=cpu "$python" -m perf_tests.suite.limits "$threads" | tee "$out/limits.json"
  RLGAUGE_LIMITS=$(cat "$out/limits.json")
  export RLGAUGE_LIMITS
  platforms=cpu selected=(--backend "$part" "${options[@]}")
  [[ $part == *cuda || $part == forms ]] && platforms=
  forms="(tf32 or (float16 and not bfloat16) or reduce_overhead) and (not collect_and_learn or 1-4-64)" # a single loop
  [ "$part" = forms ] && selected=(--tier full --backend torch-cuda,torch-compile-cuda -k "$forms")
  JAX_PLATFORMS=$platforms "${limit[@]}" "${pytest[@]}" perf_tests --benchmark-only "${selected[@]}" \
    --benchmark-json "$out/$part.json" --benchmark-max-time "${BENCH_SECONDS:-0.3}" -q --tb short -rfE 2>&1 | tee "$out/$part.txt" || failed=1
done
exit "$failed"
