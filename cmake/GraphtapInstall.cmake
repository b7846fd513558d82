# Installing: headers, library, command; find_package(graphtap) and pkg-config for those who use it.
include(CMakePackageConfigHelpers)
option(GRAPHTAP_INSTALL "Install graphtap with this project" ${PROJECT_IS_TOP_LEVEL})
if(NOT GRAPHTAP_INSTALL)
  return()
endif()

set(graphtap_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/graphtap)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS graphtap EXPORT graphtapTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET graphtap_cli)
  install(TARGETS graphtap_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT graphtapTargets NAMESPACE graphtap:: DESTINATION ${graphtap_cmake_dir})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/graphtapConfig.cmake.in ${PROJECT_BINARY_DIR}/graphtapConfig.cmake
  INSTALL_DESTINATION ${graphtap_cmake_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/graphtapConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/graphtapConfig.cmake ${PROJECT_BINARY_DIR}/graphtapConfigVersion.cmake
  DESTINATION ${graphtap_cmake_dir})

# Relative to where the .pc file lies, so that an installed tree can be moved.
file(RELATIVE_PATH GRAPHTAP_PC_PREFIX
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(GRAPHTAP_PC_CUDA "")
set(GRAPHTAP_PC_ZIP "")
if(GRAPHTAP_NPZ)
  set(GRAPHTAP_PC_ZIP " libzip")
endif()
if(GRAPHTAP_CUDA_ENABLED)
  set(GRAPHTAP_PC_CUDA " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/graphtap.pc.in ${PROJECT_BINARY_DIR}/graphtap.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/graphtap.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
