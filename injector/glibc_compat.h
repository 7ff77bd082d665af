// Binds the libc functions that glibc 2.32..2.34 gave a new version to their oldest one.
//
// A library that asks for a symbol version that the target's libc lacks is dropped by the driver
// without a word, so nothing here may need more than GLIBC_2.28 (checked by
// tests/check_injector_symbols.sh). The functions below are the same in all versions; only the
// label moved when libpthread and libdl were merged into libc. Included before everything else
// in each source file (CMake passes -include).
//
// Not used, as only newer or differently named versions exist: fstat and stat (2.33), gettid
// (2.30), strto*l (redirected to __isoc23_* from 2.38 on), pthread_cond_clockwait.
#pragma once

#if !defined(PROFILER_PLAIN_GLIBC) && defined(__linux__)
#if defined(__x86_64__)
#define PROFILER_OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define PROFILER_OLDEST_GLIBC "GLIBC_2.17"
#else
#error "x86-64 and aarch64 only"
#endif
#define PROFILER_BIND_OLDEST(name) __asm__(".symver " #name "," #name "@" PROFILER_OLDEST_GLIBC)

PROFILER_BIND_OLDEST(dladdr);
PROFILER_BIND_OLDEST(dlerror);
PROFILER_BIND_OLDEST(dlopen);
PROFILER_BIND_OLDEST(dlsym);
PROFILER_BIND_OLDEST(pthread_attr_init);
PROFILER_BIND_OLDEST(pthread_attr_setdetachstate);
PROFILER_BIND_OLDEST(pthread_create);
PROFILER_BIND_OLDEST(pthread_key_create);
PROFILER_BIND_OLDEST(pthread_setspecific);
PROFILER_BIND_OLDEST(pthread_sigmask);
#endif
