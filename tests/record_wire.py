"""Records what the injector sends, byte for byte, as a fixture for tests/golden_test.cpp.

  python3 tests/record_wire.py BUILD_DIRECTORY OUTPUT -- PROGRAM [ARGUMENTS]

Plays the collector for one process on the virtual GPU: makes the session directory, waits for the
announcement, and copies the pipe.
"""

import os
import pathlib
import subprocess
import sys
import tempfile


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value, at
        shift += 7


def pipe_name(announcement):
    """Field 3 of the message behind the length prefix."""
    _, at = read_varint(announcement, 0)
    while at < len(announcement):
        tag, at = read_varint(announcement, at)
        if tag & 7 == 2:
            length, at = read_varint(announcement, at)
            if tag >> 3 == 3:
                return announcement[at:at + length].decode()
            at += length
        else:
            _, at = read_varint(announcement, at)
    raise SystemExit("record_wire: the announcement names no pipe")


def main():
    build, output, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        raise SystemExit(__doc__)
    library = pathlib.Path(build).resolve() / "lib"
    with tempfile.TemporaryDirectory() as session:
        hello = os.path.join(session, "hello")
        os.mkfifo(hello, 0o600)
        control = os.open(hello, os.O_RDWR)
        environment = dict(
            os.environ,
            CUDA_INJECTION64_PATH=str(library / "libprofiler_injector.so"),
            PROFILER_SESSION=session,
            PROFILER_CUPTI=str(next((library / "virtual_gpu").glob("libcupti.so.*"))),
            PROFILER_VIRTUAL_GPU="h100",
            LD_LIBRARY_PATH=str(library / "virtual_gpu"),
        )
        program = subprocess.Popen(command, env=environment)
        pipe = os.path.join(session, pipe_name(os.read(control, 512)))
        with open(pipe, "rb") as stream, open(output, "wb") as file:
            file.write(stream.read())
        raise SystemExit(program.wait())


if __name__ == "__main__":
    main()
