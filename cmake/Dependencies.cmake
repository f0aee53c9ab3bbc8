# statekv_dependencies: headers and libraries the objects need. The engines are
# apart (statekv_engines), because the shared library cannot take Debian's
# librocksdb.a, which is not position-independent.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(nettle REQUIRED IMPORTED_TARGET nettle)
pkg_check_modules(libuv REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(libcrypto REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(libssl REQUIRED IMPORTED_TARGET libssl)
pkg_check_modules(protobufc REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(simdjson REQUIRED IMPORTED_TARGET simdjson)
find_library(HTTP_PARSER_LIBRARY http_parser REQUIRED)

add_library(statekv_dependencies INTERFACE)
target_link_libraries(statekv_dependencies INTERFACE PkgConfig::nettle PkgConfig::libuv
    PkgConfig::libcrypto PkgConfig::libssl PkgConfig::protobufc PkgConfig::zlib
    PkgConfig::simdjson ${HTTP_PARSER_LIBRARY} Threads::Threads m)

add_library(statekv_engines INTERFACE)        # for programs
add_library(statekv_engines_shared INTERFACE) # for the shared library
function(statekv_engine library)
    find_library(${library}_SHARED ${library} REQUIRED)
    target_link_libraries(statekv_engines_shared INTERFACE ${${library}_SHARED})
    if(STATEKV_STATIC_ENGINES)
        find_library(${library}_STATIC lib${library}.a REQUIRED)
        target_link_libraries(statekv_engines INTERFACE ${${library}_STATIC})
    else()
        target_link_libraries(statekv_engines INTERFACE ${${library}_SHARED})
    endif()
endfunction()
if(STATEKV_DRIVER_ROCKSDB)
    statekv_engine(rocksdb)
endif()
if(STATEKV_DRIVER_LEVELDB)
    statekv_engine(leveldb)
endif()
if(STATEKV_STATIC_ENGINES) # what the two archives need
    foreach(library snappy lz4 zstd bz2 z gflags)
        find_library(${library}_LIBRARY ${library} REQUIRED)
        target_link_libraries(statekv_engines INTERFACE ${${library}_LIBRARY})
    endforeach()
endif()
target_link_libraries(statekv_engines INTERFACE stdc++ ${CMAKE_DL_LIBS} Threads::Threads m)
