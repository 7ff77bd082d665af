#!/bin/sh
# Checks what libprofiler_injector.so exports and needs: a library that asks for more than the
# target's system has is dropped by the CUDA driver without a word.
#   check_injector_symbols.sh LIBRARY
set -eu
library=$1
faults=0
fault() {
  echo "$library: $1" >&2
  faults=$((faults + 1))
}
symbols=$(objdump -T "$library")

exported=$(echo "$symbols" | awk '/^[0-9a-f]/ && !/\*UND\*/ { print $NF }' | sort | tr '\n' ' ')
[ "$exported" = "InitializeInjection InitializeInjectionNvtx2 " ] ||
  fault "exports '$exported', not exactly the two entry points"

newest=$(objdump -p "$library" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -n 1)
[ -n "$newest" ] || fault "no glibc version found"
[ "$(printf '%s\n2.28\n' "$newest" | sort -V | tail -n 1)" = 2.28 ] ||
  fault "needs GLIBC_$newest: $(echo "$symbols" | grep "GLIBC_$newest" | awk '{ print $NF }' | tr '\n' ' ')"

for needed in $(objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }'); do
  case $needed in
    libc.so.6 | libpthread.so.0 | libdl.so.2 | ld-linux*) ;;
    *) fault "needs $needed" ;;
  esac
done
unresolved=$(echo "$symbols" | awk '/\*UND\*/ && $NF ~ /^(_Z|__cxa_throw|__gxx|_Unwind)/ { print $NF }')
[ -z "$unresolved" ] || fault "uses C++ run-time symbols: $unresolved"

[ "$faults" -eq 0 ] && echo "$library: two exports, libc only, GLIBC_$newest at most"
[ "$faults" -eq 0 ]
