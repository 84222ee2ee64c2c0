// Prints what llama.cpp's own loader makes of an importance matrix.
#include "imatrix-loader.h"
#include <cstdio>

int main(int argc, char ** argv) {
    common_imatrix m;
    if (argc != 2 || !common_imatrix_load(argv[1], m)) {
        return 1;
    }
    printf("%d %d %d\n", m.chunk_count, m.chunk_size, (int) m.is_legacy);
    for (const auto & d : m.datasets) {
        printf("%s\n", d.c_str());
    }
    for (const auto & [name, e] : m.entries) {
        printf("%s", name.c_str());
        for (float v : e.sums) {
            printf(" %g", v);
        }
        for (auto n : e.counts) {
            printf(" /%d", (int) n);
        }
        printf("\n");
    }
}
