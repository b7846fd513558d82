# How every target of the project is compiled, and the two helpers the tree is built from:
#   graphtap_component(name DEPS … LIBS …)   one folder of src/ as an object library gt_<name>
#   graphtap_test(name SOURCES … LIBS …)     one GoogleTest binary

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(GRAPHTAP_CCACHE ccache)
if(GRAPHTAP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GRAPHTAP_CCACHE})
endif()

# OFF where the compiler is another than the one that the project is kept free of warnings with.
option(GRAPHTAP_WERROR "Warnings are errors" ON)
add_library(graphtap_options INTERFACE)
target_compile_options(graphtap_options INTERFACE
  -Wall -Wextra -Wpedantic $<$<BOOL:${GRAPHTAP_WERROR}>:-Werror>
  -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual -Wnull-dereference
  # g++ 12 reports these inside its own headers at -O3 (GCC bug 105329 and its kin).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-null-dereference;-Wno-restrict>)
if(GRAPHTAP_SANITIZE)
  target_compile_options(graphtap_options INTERFACE
    -fsanitize=${GRAPHTAP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g)
  target_link_options(graphtap_options INTERFACE -fsanitize=${GRAPHTAP_SANITIZE})
  if(GRAPHTAP_SANITIZE MATCHES thread)
    # TSan cannot model std::atomic_thread_fence; g++ says so at every use.
    target_compile_options(graphtap_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

set_property(GLOBAL PROPERTY GRAPHTAP_COMPONENTS "")

function(graphtap_component name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "src/device/cuda/")
  if(sources)
    add_library(gt_${name} OBJECT ${sources})
    set(scope PUBLIC)
    target_link_libraries(gt_${name} PRIVATE graphtap_options)
    set_property(GLOBAL APPEND PROPERTY GRAPHTAP_COMPONENTS gt_${name})
  else()
    add_library(gt_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(gt_${name} ${scope}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  list(TRANSFORM ARG_DEPS PREPEND gt_)
  target_link_libraries(gt_${name} ${scope} ${ARG_DEPS} ${ARG_LIBS})
endfunction()

# One static library from all components; tests and tools link this.
function(graphtap_library)
  get_property(components GLOBAL PROPERTY GRAPHTAP_COMPONENTS)
  list(TRANSFORM components REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(graphtap STATIC ${objects})
  add_library(graphtap::graphtap ALIAS graphtap)
  target_compile_features(graphtap PUBLIC cxx_std_20)
  target_include_directories(graphtap PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(graphtap
    PUBLIC Threads::Threads
    PRIVATE fmt::fmt spdlog::spdlog SQLite::SQLite3 PkgConfig::XXHASH ${GRAPHTAP_ZIP})
  if(GRAPHTAP_CUDA_ENABLED)
    target_link_libraries(graphtap PRIVATE CUDA::cudart_static)
  endif()
  set_target_properties(graphtap PROPERTIES LINKER_LANGUAGE CXX)
  if(GRAPHTAP_SANITIZE)
    target_link_options(graphtap PUBLIC -fsanitize=${GRAPHTAP_SANITIZE})
  endif()
endfunction()

# Internal code (tests, the command, adapters) that may include from src/ as well.
add_library(graphtap_internal INTERFACE)
target_include_directories(graphtap_internal INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(graphtap_internal INTERFACE
  graphtap graphtap_options fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json
  SQLite::SQLite3 PkgConfig::XXHASH ${GRAPHTAP_ZIP} Threads::Threads)

function(graphtap_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE graphtap_internal ${ARG_LIBS} GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()
