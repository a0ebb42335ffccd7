#!/bin/sh
# Puts `bench` into a folder with the libraries that another machine may lack, behind a script that names them.
#   profiler/pack-bench.sh BENCH FOLDER
set -eu
if [ $# -ne 2 ]; then
    echo "usage: $0 BENCH FOLDER" >&2
    exit 2
fi
mkdir -p "$2/lib"
cp "$1" "$2/lib/bench"
ldd "$1" | awk '/libhighs|libz/ { print $3 }' | xargs -r cp -Lt "$2/lib"
cat > "$2/bench" <<'SCRIPT'
#!/bin/sh
lib=$(cd "$(dirname "$0")/lib" && pwd)
LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$lib/bench" "$@"
SCRIPT
chmod +x "$2/bench"
