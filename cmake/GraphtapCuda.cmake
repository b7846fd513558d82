# The CUDA device: GRAPHTAP_CUDA = AUTO (when nvcc is found), ON or OFF. Nothing of it is needed to build the rest, and a
# library built with it runs without a GPU: the CUDA runtime is linked statically, the driver is found at run time.
set(GRAPHTAP_CUDA AUTO CACHE STRING "Build the CUDA device: AUTO, ON or OFF")
set(GRAPHTAP_CUDA_ENABLED OFF)
if(GRAPHTAP_CUDA STREQUAL "AUTO" AND NOT GRAPHTAP_SANITIZE AND NOT GRAPHTAP_FUZZ)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(GRAPHTAP_CUDA_ENABLED ON)
  endif()
elseif(GRAPHTAP_CUDA STREQUAL "ON")
  set(GRAPHTAP_CUDA_ENABLED ON)
endif()
if(GRAPHTAP_CUDA_ENABLED)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    # Ampere and Hopper as machine code, everything later from PTX.
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  find_package(CUDAToolkit 13.0 REQUIRED)  # edge data in the graph calls
endif()

# graphtap_cuda_component(): src/device/cuda, or what says that it is not there.
function(graphtap_cuda_component)
  if(GRAPHTAP_CUDA_ENABLED)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/cuda/*.cpp
         ${PROJECT_SOURCE_DIR}/src/device/cuda/*.cu)
    list(FILTER sources EXCLUDE REGEX "/without_cuda\\.cpp$")
  else()
    set(sources ${PROJECT_SOURCE_DIR}/src/device/cuda/without_cuda.cpp)
  endif()
  add_library(gt_cuda OBJECT ${sources})
  set_property(GLOBAL APPEND PROPERTY GRAPHTAP_COMPONENTS gt_cuda)
  target_link_libraries(gt_cuda PRIVATE gt_device gt_base fmt::fmt)
  target_include_directories(gt_cuda PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  if(GRAPHTAP_CUDA_ENABLED)
    target_link_libraries(gt_cuda PRIVATE CUDA::cudart_static)
  endif()
  # graphtap_options holds g++'s warnings; nvcc takes its own.
  get_target_property(warnings graphtap_options INTERFACE_COMPILE_OPTIONS)
  target_compile_options(gt_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:${warnings}>
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${GRAPHTAP_WERROR}>>:-Xcompiler=-Werror;-Werror=all-warnings>)
endfunction()
