// tokenize answers with the ids that libllama gives.
//
//   tokenize LIBDIR MODEL.gguf < requests > answers
//
// A request is u32 length, u8 add_special, u8 parse_special, the text; an
// answer is u32 count and that many i32. Loaded with vocab_only.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ggml-backend.h"
#include "llama.h"

static void quiet(enum ggml_log_level level, const char * text, void * data) {
    (void) data;
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        return 2;
    }
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    struct llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    struct llama_model * model = llama_model_load_from_file(argv[2], params);
    if (model == NULL) {
        return 1;
    }
    const struct llama_vocab * vocab = llama_model_get_vocab(model);
    uint32_t len;
    uint8_t flags[2];
    while (fread(&len, 4, 1, stdin) == 1 && fread(flags, 2, 1, stdin) == 1) {
        char * text = malloc(len + 1);
        llama_token * ids = malloc((len + 16) * sizeof(llama_token));
        if (len > 0 && fread(text, len, 1, stdin) != 1) {
            return 1;
        }
        int32_t n = llama_tokenize(vocab, text, (int32_t) len, ids, (int32_t) len + 16, flags[0], flags[1]);
        if (n < 0) {
            return 1;
        }
        uint32_t count = (uint32_t) n;
        fwrite(&count, 4, 1, stdout);
        fwrite(ids, sizeof(llama_token), count, stdout);
        fflush(stdout);
        free(text);
        free(ids);
    }
    return 0;
}
