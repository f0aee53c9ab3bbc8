# The libraries made of statekv_objects, and what is installed for programs
# outside the tree: find_package(statekv) and pkg-config.
add_library(statekv STATIC)
add_library(statekv::statekv ALIAS statekv)
target_sources(statekv PRIVATE $<TARGET_OBJECTS:statekv_objects>)
target_include_directories(statekv PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/statekv>)
target_link_libraries(statekv PUBLIC
    $<BUILD_INTERFACE:statekv_dependencies> $<BUILD_INTERFACE:statekv_engines>)
set_target_properties(statekv PROPERTIES LINKER_LANGUAGE CXX)
