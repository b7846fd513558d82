# Builds src/hooks/catalogue.json into gt_hooks, so that the library needs no data file at run time.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/src/hooks/catalogue.json)
file(READ ${PROJECT_SOURCE_DIR}/src/hooks/catalogue.json GRAPHTAP_CATALOGUE_JSON)
configure_file(${PROJECT_SOURCE_DIR}/src/hooks/catalogue_json.cpp.in
  ${PROJECT_BINARY_DIR}/generated/catalogue_json.cpp @ONLY)
target_sources(gt_hooks PRIVATE ${PROJECT_BINARY_DIR}/generated/catalogue_json.cpp)
