# Filled by the packaging part: find_package(graphtap) and pkg-config.
