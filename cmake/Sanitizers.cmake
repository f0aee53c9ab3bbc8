if(STATEKV_SANITIZE)
    set(flags -fsanitize=${STATEKV_SANITIZE} -fno-sanitize-recover=all
        -fno-omit-frame-pointer -fno-optimize-sibling-calls)
    target_compile_options(statekv_flags INTERFACE ${flags})
    target_link_options(statekv_flags INTERFACE ${flags})
endif()
