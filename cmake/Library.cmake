# The libraries made of statekv_objects, and what is installed for programs
# outside the tree: find_package(statekv) and pkg-config.
include(CMakePackageConfigHelpers)

# What a program that links libstatekv.a needs beside it, by name: Debian's
# shared engines, since its rocksdb archive suits programs but no other library.
set(STATEKV_LINK_NAMES nettle uv ssl crypto protobuf-c z simdjson http_parser)
if(STATEKV_DRIVER_ROCKSDB)
    list(APPEND STATEKV_LINK_NAMES rocksdb)
endif()
if(STATEKV_DRIVER_LEVELDB)
    list(APPEND STATEKV_LINK_NAMES leveldb)
endif()
list(APPEND STATEKV_LINK_NAMES stdc++ pthread dl m)

# statekv_library(target TYPE engines)
function(statekv_library target type engines)
    add_library(${target} ${type})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:statekv_objects>)
    target_include_directories(${target} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/statekv>)
    target_link_libraries(${target} PUBLIC
        $<BUILD_INTERFACE:statekv_dependencies> $<BUILD_INTERFACE:${engines}>)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME statekv)
    install(TARGETS ${target} EXPORT statekv-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endfunction()

statekv_library(statekv STATIC statekv_engines)
add_library(statekv::statekv ALIAS statekv)
install(CODE "set(archive \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libstatekv.a\")
    set(nm \"${CMAKE_NM}\")
    set(objcopy \"${CMAKE_OBJCOPY}\")
    include(\"${PROJECT_SOURCE_DIR}/cmake/PrivateNames.cmake\")")
foreach(name IN LISTS STATEKV_LINK_NAMES)
    target_link_libraries(statekv PUBLIC $<INSTALL_INTERFACE:${name}>)
endforeach()

if(STATEKV_SHARED)
    statekv_library(statekv_shared SHARED statekv_engines_shared)
    target_link_libraries(statekv_shared PRIVATE $<BUILD_INTERFACE:statekv_flags>)
    target_link_options(statekv_shared PRIVATE
        "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/statekv.map")
    set_target_properties(statekv_shared PROPERTIES EXPORT_NAME shared
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
        LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/statekv.map")
    add_library(statekv::shared ALIAS statekv_shared)
endif()

# A public header is one that declares something for export, or that such a one includes.
file(GLOB headers RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/kv/*.h" "${PROJECT_SOURCE_DIR}/vmap/*.h"
    "${PROJECT_SOURCE_DIR}/reconnect/*.h" "${PROJECT_SOURCE_DIR}/abci_query/*.h")
foreach(header IN LISTS headers)
    file(STRINGS "${PROJECT_SOURCE_DIR}/${header}" exports REGEX "^KV_API " LIMIT_COUNT 1)
    if(exports)
        get_filename_component(folder "${header}" DIRECTORY)
        install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/statekv/${folder}")
    endif()
endforeach()

set(config "${CMAKE_INSTALL_LIBDIR}/cmake/statekv")
install(EXPORT statekv-targets NAMESPACE statekv:: DESTINATION "${config}")
configure_package_config_file(cmake/statekvConfig.cmake.in statekvConfig.cmake
    INSTALL_DESTINATION "${config}")
write_basic_package_version_file(statekvConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/statekvConfig.cmake"
    "${PROJECT_BINARY_DIR}/statekvConfigVersion.cmake" DESTINATION "${config}")

list(TRANSFORM STATEKV_LINK_NAMES PREPEND "-l" OUTPUT_VARIABLE names)
list(JOIN names " " STATEKV_LINK_FLAGS)
configure_file(cmake/statekv.pc.in statekv.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/statekv.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
