# Finds the llama.cpp libraries and weights that scripts/fetch_engine.sh put into the cache.
#
# Defines the imported target llama_engine::llama and LlamaEngine_MODEL, the path of the weights.
# Looks in LLAMA_ENGINE_ROOT (a folder with include/ and lib/) if given, else in the cache:
# GRAPHTAP_CACHE (CMake variable, then environment), XDG_CACHE_HOME/graphtap, ~/.cache/graphtap.
include(FindPackageHandleStandardArgs)

if(GRAPHTAP_CACHE)
  set(_llama_cache ${GRAPHTAP_CACHE})
elseif(DEFINED ENV{GRAPHTAP_CACHE})
  set(_llama_cache $ENV{GRAPHTAP_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(_llama_cache $ENV{XDG_CACHE_HOME}/graphtap)
else()
  set(_llama_cache $ENV{HOME}/.cache/graphtap)
endif()
set(_llama_root ${LLAMA_ENGINE_ROOT})
if(NOT _llama_root)
  set(_llama_root ${_llama_cache}/engine/current)
endif()

# Not find_library: another llama.cpp on this machine must never be taken for the pinned one.
set(_llama_missing "")
foreach(_file include/llama.h lib/libllama.a lib/libggml.a lib/libggml-cpu.a lib/libggml-base.a)
  if(NOT EXISTS ${_llama_root}/${_file})
    list(APPEND _llama_missing ${_file})
  endif()
endforeach()
if(NOT _llama_missing)
  set(LlamaEngine_ROOT_DIR ${_llama_root})
endif()
set(LlamaEngine_MODEL ${_llama_cache}/models/SmolLM2-135M-Instruct.Q4_1.gguf)

list(JOIN _llama_missing " and " _llama_missing)
find_package_handle_standard_args(LlamaEngine
  REQUIRED_VARS LlamaEngine_ROOT_DIR
  REASON_FAILURE_MESSAGE
    "${_llama_root} lacks ${_llama_missing}. Run scripts/fetch_engine.sh or set LLAMA_ENGINE_ROOT")

if(LlamaEngine_FOUND AND NOT TARGET llama_engine::llama)
  find_package(Threads REQUIRED)
  foreach(_lib ggml-base ggml-cpu ggml)
    add_library(llama_engine::${_lib} STATIC IMPORTED)
    set_target_properties(llama_engine::${_lib} PROPERTIES
      IMPORTED_LOCATION ${LlamaEngine_ROOT_DIR}/lib/lib${_lib}.a
      IMPORTED_LINK_INTERFACE_LANGUAGES "C;CXX")
  endforeach()
  set_property(TARGET llama_engine::ggml-base PROPERTY
    INTERFACE_LINK_LIBRARIES Threads::Threads m ${CMAKE_DL_LIBS})
  set_property(TARGET llama_engine::ggml-cpu PROPERTY
    INTERFACE_LINK_LIBRARIES llama_engine::ggml-base)
  set_property(TARGET llama_engine::ggml PROPERTY
    INTERFACE_LINK_LIBRARIES llama_engine::ggml-cpu)
  add_library(llama_engine::llama STATIC IMPORTED)
  set_target_properties(llama_engine::llama PROPERTIES
    IMPORTED_LOCATION ${LlamaEngine_ROOT_DIR}/lib/libllama.a
    IMPORTED_LINK_INTERFACE_LANGUAGES CXX
    INTERFACE_INCLUDE_DIRECTORIES ${LlamaEngine_ROOT_DIR}/include
    INTERFACE_LINK_LIBRARIES llama_engine::ggml)
endif()
