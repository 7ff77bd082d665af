// Catch2 v2 makes its main here; v3 brings one in its library.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#endif
#include "tests/catch.h"
