#!/usr/bin/env bash
# Do the tests notice? Puts faults into the part that finds the causes of idle time, one at a time,
# and demands that the unit tests or the random workloads fail for each.
#
#   tests/mutate.sh BUILD_DIRECTORY [NAME...]      BUILD_DIRECTORY: a finished build of this tree
#   tests/mutate.sh --list
#
# Works on a private copy, with a build of its own: about five minutes. Without a virtual GPU in
# BUILD_DIRECTORY the unit tests stand alone. JOBS=N builds on N processors (default: all).
#
# Exit status: 0 = every fault was noticed; 1 = one was not, or a fault could not be put in.
set -euo pipefail

partition=collector/partition.cpp
devices=collector/device_activity.cpp
launches=collector/launch_index.cpp

# fault NAME FILE SED WHAT: `SED` must change FILE.
names=()
declare -A file_of edit_of meaning_of
fault() {
  names+=("$1")
  file_of[$1]=$2
  edit_of[$1]=$3
  meaning_of[$1]=$4
}

# --- Rules 3 to 5, in partition.cpp
fault clamp-removed $partition \
  's/call_start_\(std::min\(launch\.start, gap\.end\)\)/call_start_(launch.start)/' \
  'a call that seems to start after its operation is not clamped'
fault clock-fault-at-equality $partition \
  's/return launch->start > gap\.end;/return launch->start >= gap.end;/' \
  'a call that starts as its operation does counts as a clock fault'
fault hand-over-ignored $partition \
  's/if \(!silent\) \{/if (true) {/' \
  'no thread ever hands over to another'
fault hand-over-by-busy-thread $partition \
  's/if \(!silent\) \{/if (false) {/' \
  'another thread is blamed though the launching one made calls'
fault hand-over-thread-lost $partition \
  's/lanes_\.calls\(\)\[record->index\]\.thread, true/launch_.thread, true/' \
  'what another thread waited for counts as the time of the launching one'
fault process-start-ignored $partition \
  's/std::clamp\(launch_\.process_hello_ns, part\.start, part\.end\)/part.start/' \
  'the time before the hello is CPU code'
fault process-start-swapped $partition \
  's/Cause::kProcessStarting/Cause::kSwapped/; s/Cause::kCpuCode/Cause::kProcessStarting/; s/Cause::kSwapped/Cause::kCpuCode/' \
  'before and after the hello are swapped'
fault overhead-ignored $partition \
  's/if \(ThreadLanes::is_overhead\(record\)\)/if (false)/' \
  'OVERHEAD records within the launch count for nothing'
fault calls-as-overhead $partition \
  's/if \(ThreadLanes::is_overhead\(record\)\) (overheads_)/\1/' \
  'calls within the launch count like OVERHEAD records'
fault overhead-beyond-the-call $partition \
  's/const std::uint64_t call_end = .*/const std::uint64_t call_end = gap_.end;/' \
  'OVERHEAD records count after the launch has returned'
fault staging-ignored $partition \
  's/if \(launch_\.is_staged_copy\) \{/if (false) {/' \
  'a copy of pageable memory is launched like any other work'
fault staging-after-other-rules $partition \
  's/if \(launch_\.is_staged_copy\) \{/if (launch_.is_staged_copy \&\& call_start_ > gap_.start) {/' \
  'a copy that was submitted before the gap does not stage'
fault latency-at-equality $partition \
  '/void on_its_way/,/^  }/ s/call_start_ > gap_\.start/call_start_ >= gap_.start/' \
  'work that was submitted as the gap began was late with its host'
fault window-from-the-gap $partition \
  's/std::uint64_t late = call_start_ \+/std::uint64_t late = gap_.start +/' \
  'the launch window begins with the gap'
fault call-end-forgotten $partition \
  '/if \(call_end_ < gap_\.end\) late = /d' \
  'a call that returns late explains nothing'
fault call-end-at-equality $partition \
  's/if \(call_end_ < gap_\.end\) late = /if (call_end_ <= gap_.end) late = /' \
  'a call that ends with the gap explains all of it'
fault scheduling-as-latency $partition \
  's/Cause::kScheduling/Cause::kLaunchLatency/' \
  'scheduling is called launch latency'
fault joined-across-causes $partition \
  's/last\.cause == piece\.cause && //' \
  'neighbours of different causes become one piece'

# --- Gaps and what ended them, in device_activity.cpp
fault empty-operation-ends-gap $devices \
  's/const bool empty = o\.start == o\.end;/const bool empty = o.start > o.end;/' \
  'an empty operation ends a gap like any other'
fault tie-order $devices \
  's/if \(rank\(index\) < rank\(best\)\)/if (rank(best) < rank(index))/' \
  'of several operations the one that was submitted last ended the gap'
fault tie-by-call-end $devices \
  's/false, api\.start, api\.end,/false, api.end, api.start,/' \
  'of several operations the one whose call ends first ended the gap'
fault unknown-launch-first $devices \
  's/std::tuple\{empty, true, /std::tuple{empty, false, /' \
  'an operation without a launch record comes first'
fault span-ends-early $devices \
  's/activity_\.last_end = std::max\(activity_\.last_end, o\.end\)/activity_.last_end = o.end/' \
  'the operation that starts last ends the span'
fault kernels-as-copies $devices \
  's/o\.kind == OperationKind::kKernel \?/o.kind != OperationKind::kKernel ?/' \
  'kernels and copies are swapped'
fault opened-at-the-end $devices \
  's/waiting_at\(call\.thread, gap\.start\)/waiting_at(call.thread, gap.end)/' \
  'the call that is open at the end of a gap opened it'
fault hello-forgotten $devices \
  '/launch\.process_hello_ns =/,/;/d' \
  'no process says hello'
fault longest-is-last $devices \
  's/totals\.longest_ns = std::max\(totals\.longest_ns, share\)/totals.longest_ns = share/' \
  'the last share of a cause counts as its longest'
fault top-gaps-latest $devices \
  's/: a\.start < b\.start;/: a.start > b.start;/' \
  'of gaps of one length the later one comes first'
fault holes-ignored $devices \
  's/if \(parts\.intervals\(\)\.size\(\) == 1 .*/if (true) {/' \
  'a gap is not cut where records were lost'

# --- Which call submitted an operation, in launch_index.cpp
fault id-of-a-later-call $launches \
  '/if \(calls\[candidate->index\]\.start > operations\[entry\.index\]\.start\) break;/d' \
  'an id that is used again belongs to the last call that had it'
fault id-at-the-same-start $launches \
  's/(calls\[candidate->index\]\.start) > (operations\[entry\.index\]\.start)/\1 >= \2/' \
  'a call that starts as the operation does is too late for it'
fault driver-call-launches $launches \
  '/chosen = lanes\.outermost\(chosen\);/d' \
  'the call with the id is the launch, and not the one around it'
fault pageable-source-only $launches \
  's/ \|\| transfer\.destination_kind == kPageable//' \
  'only what reads pageable memory is staged'
fault pageable-call-not-marked $launches \
  's/ lanes\.mark_pageable\(chosen\);/ continue;/' \
  'an asynchronous copy of pageable memory does not block'
fault failed-launches-missed $launches \
  's/ calls\[i\]\.result != 0 \|\|//' \
  'a launch that failed is missed among the operations'

if [ "${1-}" = --list ]; then
  for name in "${names[@]}"; do printf '%-26s %s\n' "$name" "${meaning_of[$name]}"; done
  exit 0
fi
if [ $# -lt 1 ] || [ ! -x "$1/bin/profiler" ]; then
  echo "usage: tests/mutate.sh BUILD_DIRECTORY [NAME...], with a finished build" >&2
  exit 1
fi
build=$(cd "$1" && pwd)
shift
chosen=("$@")
[ $# -gt 0 ] || chosen=("${names[@]}")
for name in "${chosen[@]}"; do
  [ -n "${file_of[$name]-}" ] || { echo "mutate.sh: there is no fault $name; see --list" >&2; exit 1; }
done

cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
source=$scratch/source
mkdir "$source"
git ls-files -z --cached --others --exclude-standard | xargs -0 tar cf - --ignore-failed-read 2>/dev/null |
  tar xf - -C "$source"

# A fault that cannot be put in is found before anything is built.
original=$scratch/original
mkdir "$original"
cp -r "$source/collector" "$original"
apply() { sed -E -e "${edit_of[$1]}" "$original/${file_of[$1]}"; }
stale=0
for name in "${chosen[@]}"; do
  if apply "$name" | cmp -s - "$original/${file_of[$name]}"; then
    echo "STALE $name: it changes nothing in ${file_of[$name]}; bring it up to date"
    stale=1
  fi
done
[ $stale -eq 0 ] || exit 1

jobs=${JOBS:-$(nproc)}
echo "Building a private copy"
# Little optimisation, no toolkit: it is the same code, and built sooner.
cmake -S "$source" -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O1 \
  -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON >"$scratch/cmake.log" || { cat "$scratch/cmake.log"; exit 1; }
compile() { cmake --build "$scratch/build" -j "$jobs" --target unit_tests profiler >"$scratch/build.log" 2>&1; }
compile || { tail -n 40 "$scratch/build.log"; exit 1; }

# The profiler of the copy beside the injector, the virtual GPU and the program of the finished build.
workloads=no
if [ -e "$build/lib/virtual_gpu/libcuda.so.1" ] && [ -x "$build/tests/programs/random_workload" ]; then
  workloads=yes
  mkdir -p "$scratch/run/bin" "$scratch/run/tests"
  ln -s "$build/lib" "$scratch/run/lib"
  ln -s "$build/tests/programs" "$scratch/run/tests/programs"
fi

unit_tests_pass() { (cd "$scratch" && timeout 300 "$scratch/build/bin/unit_tests" -# \
  '[#partition_test],[#recording_test],[#nvtx_test],[#trace_events_test]' >"$scratch/unit.log" 2>&1); }
workloads_pass() {
  [ $workloads = yes ] || return 0
  cp -f "$scratch/build/bin/profiler" "$scratch/run/bin/profiler"
  timeout 300 python3 tests/random_workload_test.py "$scratch/run" --seeds "$1" >"$scratch/run.log" 2>&1
}
# Prints what noticed; fails if nothing did.
notice() {
  unit_tests_pass || { echo "unit tests"; return 0; }
  workloads_pass 16 || { echo "random workloads"; return 0; }
  return 1
}

if noticed=$(notice); then
  echo "The tests fail without any fault ($noticed):"
  tail -n 30 "$scratch/unit.log" "$scratch/run.log" 2>/dev/null
  exit 1
fi
[ $workloads = yes ] || echo "No virtual GPU in $build: the unit tests stand alone"

killed=0
survivors=()
for name in "${chosen[@]}"; do
  file=${file_of[$name]}
  apply "$name" >"$source/$file"
  if ! compile; then
    # What the compiler refuses no test need notice; but then it is no fault to test with.
    echo "STALE $name: $file does not compile with it"
    grep -m 3 'error:' "$scratch/build.log" || tail -n 5 "$scratch/build.log"
    survivors+=("$name")
  elif noticed=$(notice); then
    printf 'noticed   %-26s by the %s\n' "$name" "$noticed"
    killed=$((killed + 1))
  else
    printf 'SURVIVED  %-26s %s\n' "$name" "${meaning_of[$name]}"
    survivors+=("$name")
  fi
  cp "$original/$file" "$source/$file"
done
echo "$killed noticed, ${#survivors[@]} not${survivors[*]:+: ${survivors[*]}}"
[ ${#survivors[@]} -eq 0 ]
