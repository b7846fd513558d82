# GRAPHTAP_XXH_DISPATCH: whether libxxhash chooses its code by what the processor has (x86-64 builds of it do).
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES PkgConfig::XXHASH)
check_cxx_source_compiles("
  #define XXH_STATIC_LINKING_ONLY
  #include <xxhash.h>
  #include <xxh_x86dispatch.h>
  int main() { XXH3_state_t state; XXH3_64bits_reset(&state); return static_cast<int>(XXH3_64bits_update(&state, \"\", 0)); }"
  GRAPHTAP_XXH_DISPATCH)
unset(CMAKE_REQUIRED_LIBRARIES)
