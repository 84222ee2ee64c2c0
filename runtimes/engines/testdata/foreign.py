"""Writes small random models of architectures that mm's own engine does not run."""
import sys
import numpy as np
import gguf

V, C, H, F, L, CTX = 260, 64, 4, 128, 2, 512


def tokens(w):
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    table = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    names, n = {}, 0
    for b in range(256):
        names[b] = chr(b) if b in table else chr(256 + n)
        n += b not in table
    w.add_token_list([names[b] for b in range(256)] + ["<|end|>", "ab", "<x2>", "<x3>"])
    w.add_token_types([1] * 256 + [3, 1, 3, 3])
    w.add_token_merges(["a b"])
    w.add_eos_token_id(256)


def model(arch, path):
    rng = np.random.default_rng(7)
    w = gguf.GGUFWriter(path, arch)
    w.add_context_length(CTX)
    w.add_embedding_length(C)
    w.add_block_count(L)
    w.add_feed_forward_length(F)
    w.add_head_count(H)
    w.add_file_type(0)
    norm = arch != "deepseek"
    (w.add_layer_norm_eps if norm else w.add_layer_norm_rms_eps)(1e-5)
    t = lambda name, *dims: w.add_tensor(name, rng.normal(0, 0.1, dims).astype(np.float32))
    one = lambda name, n: (w.add_tensor(name + ".weight", np.ones(n, np.float32)), norm and w.add_tensor(name + ".bias", np.zeros(n, np.float32)))
    t("token_embd.weight", V, C)
    one("output_norm", C)
    t("output.weight", V, C)
    w.add_head_count_kv(H)
    if arch == "bloom":
        one("token_embd_norm", C)
    if arch == "deepseek":
        w.add_rope_dimension_count(C // H)
        w.add_leading_dense_block_count(1)
        w.add_expert_count(4)
        w.add_expert_used_count(2)
        w.add_expert_shared_count(2)
        w.add_expert_feed_forward_length(32)
        w.add_expert_weights_scale(1.0)
    for i in range(L):
        b = f"blk.{i}."
        one(b + "attn_norm", C)
        one(b + "ffn_norm", C)
        if arch == "bloom":
            for n, o, k in (("attn_qkv", 3 * C, C), ("attn_output", C, C), ("ffn_up", F, C), ("ffn_down", C, F)):
                t(b + n + ".weight", o, k)
                t(b + n + ".bias", o)
            continue
        for n in ("attn_q", "attn_k", "attn_v", "attn_output"):
            t(b + n + ".weight", C, C)
        if arch == "orion" or i == 0:
            for n, o, k in (("gate", F, C), ("up", F, C), ("down", C, F)):
                t(b + f"ffn_{n}.weight", o, k)
            continue
        t(b + "ffn_gate_inp.weight", 4, C)
        for n, o, k in (("gate", 32, C), ("up", 32, C), ("down", C, 32)):
            t(b + f"ffn_{n}_exps.weight", 4, o, k)
        for n, o, k in (("gate", 64, C), ("up", 64, C), ("down", C, 64)):
            t(b + f"ffn_{n}_shexp.weight", o, k)
    tokens(w)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


for arch in ("deepseek", "orion", "bloom"):
    model(arch, f"{sys.argv[1]}/{arch}.gguf")
