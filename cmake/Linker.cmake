# A fast linker where there is one: two dozen programs with the engines inside spend
# more time in the stock linker than in the compiler.
find_program(STATEKV_MOLD mold)
if(STATEKV_MOLD)
    add_link_options(-fuse-ld=mold)
endif()
