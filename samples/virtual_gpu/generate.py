#!/usr/bin/env python3
"""Writes, from the installed toolkit, what the stand-ins need to look like its libraries.

    generate.py stubs PREFIX LIBRARY OUTPUT                        every export as a weak stub
    generate.py map NODE OUTPUT PATTERN...                         a linker version script
    generate.py errors RUNTIME_HEADER DRIVER_HEADER OUTPUT         numbers and names of the errors
    generate.py results HEADER OUTPUT                              numbers and names of CUptiResult
    generate.py names RUNTIME_HEADER DRIVER_HEADER OUTPUT          numbers and names of the calls

Nothing of the toolkit is kept in the repository: it is read again in each build.
"""
import re
import subprocess
import sys


def exports(library):
    """Names of the functions that a shared library exports, without version nodes."""
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                             capture_output=True, text=True).stdout
    names = set()
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in "TWti":
            names.add(fields[2].split("@")[0])
    return sorted(names)


def enumerators(header, prefix):
    """(name, number) of the CUPTI callback ids in a header, in its order."""
    found = []
    with open(header, encoding="utf-8", errors="replace") as text:
        for line in text:
            match = re.match(r"\s*" + prefix + r"(\w+)\s*=\s*(\d+)\s*,", line)
            if match and match[1] not in ("SIZE", "FORCE_INT"):
                found.append((match[1], int(match[2])))
    if not found:
        sys.exit(f"{header}: no {prefix}* enumerators found")
    return found


def write_stubs(prefix, library, output):
    names = [n for n in exports(library) if re.match(prefix, n)]
    if not names:
        sys.exit(f"{library}: exports nothing that begins with {prefix}")
    with open(output, "w", encoding="utf-8") as out:
        out.write("/* Generated: one weak stub per export; what is implemented overrides it. */\n")
        out.write("int virtual_gpu_missing(const char* name, int* logged);\n")
        for name in names:
            out.write(
                f'__attribute__((weak, visibility("default"))) int {name}(void);\n'
                f"int {name}(void) {{ static int logged; "
                f'return virtual_gpu_missing("{name}", &logged); }}\n')


def write_map(node, output, patterns):
    # Without a node the symbols stay unversioned, as those of libcuda.so.1 are.
    with open(output, "w", encoding="utf-8") as out:
        out.write((f"{node} " if node != "-" else "") + "{\n  global:\n")
        for pattern in patterns:
            out.write(f"    {pattern};\n")
        out.write("  local:\n    *;\n};\n")


def write_names(runtime, driver, output):
    with open(output, "w", encoding="utf-8") as out:
        out.write("// Generated: numbers and names of the API calls of the installed toolkit.\n"
                  "#pragma once\n\n#include <cstdint>\n#include <string_view>\n\n"
                  "namespace virtual_gpu {\n\n")
        for word, header, prefix in (
                ("Runtime", runtime, "CUPTI_RUNTIME_TRACE_CBID_"),
                ("Driver", driver, "CUPTI_DRIVER_TRACE_CBID_")):
            calls = enumerators(header, prefix)
            by_number = dict((number, name) for name, number in calls)
            out.write(f"inline constexpr const char* k{word}Names[] = {{\n")
            for number in range(max(by_number) + 1):
                out.write(f'    "{by_number.get(number, "INVALID")}",\n')
            out.write("};\n\n")
            # An API number per function: where a name has several, the newest version.
            newest = {}
            for name, number in calls:
                if word == "Runtime":
                    match = re.match(r"(\w+?)_v(\d+)$", name)
                    base, version = (match[1], int(match[2])) if match else (name, 0)
                else:
                    base, version = name, 0
                if base not in newest or version > newest[base][0]:
                    newest[base] = (version, number)
            out.write(f"struct {word}Number {{\n  std::string_view name;\n"
                      "  std::uint32_t cbid;\n};\n")
            out.write(f"inline constexpr {word}Number k{word}Numbers[] = {{\n")
            for base in sorted(newest):
                out.write(f'    {{"{base}", {newest[base][1]}}},\n')
            out.write("};\n\n")
        out.write("}  // namespace virtual_gpu\n")


def write_errors(runtime, driver, output):
    with open(output, "w", encoding="utf-8") as out:
        out.write("// Generated: the error codes of the installed toolkit.\n#pragma once\n\n"
                  "namespace virtual_gpu {\n\n"
                  "struct ErrorName {\n  int number;\n  const char* name;\n};\n\n")
        for word, header, prefix in (("Runtime", runtime, "cudaError"),
                                     ("Driver", driver, "CUDA_ERROR_")):
            with open(header, encoding="utf-8", errors="replace") as text:
                found = re.findall(r"^\s*(" + prefix + r"\w+)\s*=\s*(\d+)", text.read(), re.M)
            if not found:
                sys.exit(f"{header}: no {prefix}* enumerators found")
            success = "cudaSuccess" if word == "Runtime" else "CUDA_SUCCESS"
            out.write(f"inline constexpr ErrorName k{word}Errors[] = {{\n"
                      f'    {{0, "{success}"}},\n')
            for name, number in found:
                out.write(f'    {{{number}, "{name}"}},\n')
            out.write("};\n\n")
        out.write("}  // namespace virtual_gpu\n")


def write_results(header, output):
    with open(header, encoding="utf-8", errors="replace") as text:
        found = re.findall(r"^\s*(CUPTI_(?:SUCCESS|ERROR_\w+))\s*=\s*(\d+)\s*,", text.read(), re.M)
    if not found:
        sys.exit(f"{header}: no CUPTI_ERROR_* enumerators found")
    with open(output, "w", encoding="utf-8") as out:
        out.write("// Generated: the results of the installed CUPTI.\n#pragma once\n\n"
                  "namespace virtual_gpu {\n\n"
                  "struct CuptiResultName {\n  int number;\n  const char* name;\n};\n\n"
                  "inline constexpr CuptiResultName kCuptiResults[] = {\n")
        for name, number in found:
            out.write(f'    {{{number}, "{name}"}},\n')
        out.write("};\n\n}  // namespace virtual_gpu\n")


def main(arguments):
    if len(arguments) == 4 and arguments[0] == "stubs":
        write_stubs(*arguments[1:])
    elif len(arguments) >= 4 and arguments[0] == "map":
        write_map(arguments[1], arguments[2], arguments[3:])
    elif len(arguments) == 4 and arguments[0] == "errors":
        write_errors(*arguments[1:])
    elif len(arguments) == 3 and arguments[0] == "results":
        write_results(*arguments[1:])
    elif len(arguments) == 4 and arguments[0] == "names":
        write_names(*arguments[1:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
