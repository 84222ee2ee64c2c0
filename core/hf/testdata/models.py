# Makes a small model of every architecture that core/hf reads, with random
# weights, and what transformers computes with it.
#
#   python models.py DIR [NAME...]
#   python models.py --golden DIR NAME...
#
# DIR/NAME is the folder of a model, as save_pretrained writes it, with a
# tokenizer. DIR/NAME.json tells what to compare: for each case a context, the
# tokens, the file of the logits after each of them (float32, n × V), and the
# tokens of a greedy continuation. With --golden the weights are formulas: DIR/NAME.json
# holds the configuration, the formula of each tensor, tokens, and some logits.
import json
import os
import sys
import tempfile
import zlib

import numpy as np
import tokenizers
import torch
import transformers as T

V = 512
torch.set_num_threads(1)
base = dict(vocab_size=V, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=96, max_position_embeddings=2048, bos_token_id=0, eos_token_id=1, pad_token_id=2)


def rope(kind, theta=10000.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


def pairs(n, low, high):
    return [float(low + (high - low) * i / n) for i in range(n)]


long = rope("longrope", short_factor=pairs(8, 1, 1.5), long_factor=pairs(8, 1, 6))
gpt2 = dict(vocab_size=V, n_embd=64, n_layer=4, n_head=4, n_positions=1024, bos_token_id=0, eos_token_id=1)
falcon = dict(vocab_size=V, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, bos_token_id=0, eos_token_id=1, ffn_hidden_size=96, alibi=False)
neox = {k: v for k, v in base.items() if k != "num_key_value_heads"}

elder = dict(vocab_size=V, hidden_size=64, bos_token_id=0, eos_token_id=1, pad_token_id=2)

latent = dict(kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=24, moe_intermediate_size=32, n_routed_experts=8, num_experts_per_tok=3)
deepseek = {**base, "num_key_value_heads": 4, **latent}
mamba = dict(vocab_size=V, hidden_size=64, num_hidden_layers=4, num_heads=8, head_dim=16, state_size=16, chunk_size=64, bos_token_id=0, eos_token_id=1, pad_token_id=2)
granite = dict(**base, shared_intermediate_size=80, attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.3, logits_scaling=4.0,
               mamba_n_heads=8, mamba_n_groups=2, mamba_d_state=16, mamba_chunk_size=64)

delta = dict(**{k: v for k, v in base.items() if k != "intermediate_size"}, head_dim=32, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, shared_expert_intermediate_size=48)

# name: configuration, lengths of the texts, contexts of the engine
models = {
    "llama": (T.LlamaConfig(**base), [40, 600], 1024),
    "llama-tied-bias": (T.LlamaConfig(**base, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=32), [300], 1024),
    "llama-linear": (T.LlamaConfig(**base, rope_parameters=rope("linear", factor=4.0)), [300], 1024),
    "llama-yarn": (T.LlamaConfig(**base, rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=256)), [600], 1024),
    "llama-yarn-factors": (T.LlamaConfig(**base, rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=256, attention_factor=0.7, beta_fast=16.0, beta_slow=2.0)), [600], 1024),
    "llama-llama3": (T.LlamaConfig(**base, rope_parameters=rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)), [600], 1024),
    "llama-gelu": (T.LlamaConfig(**base, hidden_act="gelu"), [64], 1024),
    "mistral": (T.MistralConfig(**base, sliding_window=300), [200, 900], 1024),
    "mistral-narrow": (T.MistralConfig(**base, sliding_window=7, head_dim=32), [64, 600], 1024),
    "mixtral": (T.MixtralConfig(**base, num_local_experts=8, num_experts_per_tok=2), [40, 300], 1024),
    "qwen2": (T.Qwen2Config(**base), [300], 1024),
    "qwen3": (T.Qwen3Config(**base, head_dim=32), [300], 1024),
    "qwen3moe": (T.Qwen3MoeConfig(**base, head_dim=16, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=64, norm_topk_prob=True), [40, 300], 1024),
    "qwen3moe-sum": (T.Qwen3MoeConfig(**base, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=False), [300], 1024),
    "gemma": (T.GemmaConfig(**base, head_dim=32), [300], 1024),
    "gemma2": (T.Gemma2Config(**base, head_dim=32, sliding_window=48, query_pre_attn_scalar=24), [40, 600], 1024),
    "gemma3": (T.Gemma3TextConfig(**{**base, "num_hidden_layers": 7}, head_dim=32, sliding_window=280, query_pre_attn_scalar=32), [100, 900], 1024),
    "gemma3-linear": (T.Gemma3TextConfig(**{**base, "num_hidden_layers": 6}, head_dim=32, sliding_window=32, query_pre_attn_scalar=24, final_logit_softcapping=20.0,
        rope_parameters={"full_attention": rope("linear", 1e6, factor=8.0), "sliding_attention": rope("default")}), [600], 1024),
    "phi3": (T.Phi3Config(**base, sliding_window=200), [100, 600], 1024),
    "phi3-longrope": (T.Phi3Config(**base, original_max_position_embeddings=128, rope_parameters=long), [100, 600], (128, 1024)),
    "phi3-partial": (T.Phi3Config(**base, original_max_position_embeddings=128, rope_parameters={**long, "short_factor": pairs(6, 1, 1.5), "long_factor": pairs(6, 1, 6), "partial_rotary_factor": 0.75}), [600], 1024),
    "smollm3": (T.SmolLM3Config(**{**base, "num_hidden_layers": 9}), [300], 1024),
    "smollm3-odd": (T.SmolLM3Config(**base, no_rope_layers=[0, 1, 1, 0]), [300], 1024),
    "olmo2": (T.Olmo2Config(**base), [300], 1024),
    "granite": (T.GraniteConfig(**base, attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.3, logits_scaling=4.0), [300], 1024),
    "gpt2": (T.GPT2Config(**gpt2), [300, 1000], 1024),
    "gptneox": (T.GPTNeoXConfig(**neox), [300], 1024),
    "gptneox-serial": (T.GPTNeoXConfig(**neox, use_parallel_residual=False, hidden_act="gelu_new", rope_parameters=rope("default", partial_rotary_factor=1.0)), [300], 1024),
    "stablelm": (T.StableLmConfig(**base, use_qkv_bias=True), [300], 1024),
    "stablelm-parallel": (T.StableLmConfig(**base, use_parallel_residual=True, qk_layernorm=True), [300], 1024),
    "qwen2moe": (T.Qwen2MoeConfig(**base, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=64, shared_expert_intermediate_size=128), [40, 300], 1024),
    "qwen2moe-norm": (T.Qwen2MoeConfig(**base, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32, norm_topk_prob=True), [300], 1024),
    "qwen3next": (T.Qwen3NextConfig(**delta, linear_num_value_heads=4, linear_num_key_heads=2, linear_value_head_dim=16, linear_key_head_dim=16), [40, 600], 1024),
    "qwen3next-wide": (T.Qwen3NextConfig(**{**delta, "norm_topk_prob": False}, linear_num_value_heads=3, linear_num_key_heads=3, linear_value_head_dim=32, linear_key_head_dim=16, linear_conv_kernel_dim=3,
        layer_types=["full_attention", "linear_attention", "linear_attention", "full_attention"]), [300], 1024),
    "qwen35": (T.Qwen3_5TextConfig(**base, head_dim=32, linear_num_value_heads=6, linear_num_key_heads=2, linear_value_head_dim=24, linear_key_head_dim=16,
        rope_parameters=rope("default", partial_rotary_factor=0.5, mrope_section=[4, 2, 2])), [40, 600], 1024),
    "qwen35-equal": (T.Qwen3_5TextConfig(**base, head_dim=128, linear_num_value_heads=3, linear_num_key_heads=3, linear_value_head_dim=16, linear_key_head_dim=32, linear_conv_kernel_dim=3,
        layer_types=["full_attention", "linear_attention", "linear_attention", "full_attention"], tie_word_embeddings=True,
        rope_parameters=rope("default", partial_rotary_factor=0.5)), [300], 1024),
    "qwen35moe": (T.Qwen3_5MoeTextConfig(**delta, linear_num_value_heads=4, linear_num_key_heads=2, linear_value_head_dim=16, linear_key_head_dim=16,
        rope_parameters=rope("default", partial_rotary_factor=0.5, mrope_section=[4, 2, 2])), [40, 600], 1024),
    "olmoe": (T.OlmoeConfig(**base, num_experts=8, num_experts_per_tok=3), [300], 1024),
    "granitemoe": (T.GraniteMoeConfig(**base, num_local_experts=8, num_experts_per_tok=3, attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.3, logits_scaling=4.0), [300], 1024),
    "gptoss": (T.GptOssConfig(**base, head_dim=32, num_local_experts=4, num_experts_per_tok=2, sliding_window=48), [40, 600], 1024),
    "gptoss-default": (T.GptOssConfig(**{**base, "num_hidden_layers": 3}, head_dim=16, num_local_experts=8, num_experts_per_tok=4, sliding_window=128, tie_word_embeddings=True, rope_parameters=rope("default", 150000.0)), [300], 1024),
    "glm4": (T.Glm4Config(**base, head_dim=32, attention_bias=True, rope_parameters=rope("default", partial_rotary_factor=0.5)), [300], 1024),
    "ministral3": (T.Ministral3Config(**base, head_dim=32, rope_parameters=rope("yarn", 1e6, factor=8.0, original_max_position_embeddings=128, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)), [100, 600], 1024),
    "phi": (T.PhiConfig(**base, rope_parameters=rope("default", partial_rotary_factor=0.5)), [300], 1024),
    "falcon": (T.FalconConfig(**falcon), [300], 1024),
    "falcon-groups": (T.FalconConfig(**falcon, new_decoder_architecture=True, num_kv_heads=2, bias=True), [300], 1024),
    "falcon-one-norm": (T.FalconConfig(**falcon, new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1, tie_word_embeddings=False), [300], 1024),
    "cohere": (T.CohereConfig(**base, logit_scale=0.25), [300], 1024),
    "cohere-norm": (T.CohereConfig(**base, logit_scale=0.1, use_qk_norm=True), [300], 1024),
    "cohere2": (T.Cohere2Config(**{**base, "num_hidden_layers": 8}, logit_scale=0.25, sliding_window=48), [40, 600], 1024),
    "starcoder2": (T.Starcoder2Config(**base), [300], 1024),
    "exaone4": (T.Exaone4Config(**base, sliding_window=None, layer_types=["full_attention"] * 4), [300], 1024),
    "exaone4-window": (T.Exaone4Config(**{**base, "num_hidden_layers": 8}, sliding_window=48), [40, 600], 1024),
    "ernie": (T.Ernie4_5Config(**base, head_dim=32), [300], 1024),
    "gptoss-mxfp4": (T.GptOssConfig(**base, head_dim=32, num_local_experts=4, num_experts_per_tok=2, sliding_window=48), [200], 1024),
    "deepseek2": (T.DeepseekV2Config(**deepseek, q_lora_rank=24, first_k_dense_replace=1, n_shared_experts=2, routed_scaling_factor=1.5, topk_method="group_limited_greedy", n_group=4, topk_group=2), [40, 300], 1024),
    "deepseek2-lite": (T.DeepseekV2Config(**deepseek, q_lora_rank=None, first_k_dense_replace=1,
        rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=128, beta_fast=32.0, beta_slow=1.0, mscale=0.707, mscale_all_dim=0.707)), [600], 1024),
    "deepseek3": (T.DeepseekV3Config(**deepseek, q_lora_rank=24, first_k_dense_replace=2, n_group=4, topk_group=2, num_mtp_layers=0,
        rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=128, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0)), [40, 600], 1024),
    "deepseek3-plain": (T.DeepseekV3Config(**deepseek, q_lora_rank=None, first_k_dense_replace=0, n_group=1, topk_group=1, norm_topk_prob=False, num_mtp_layers=0,
        rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=256)), [300], 1024),
    "lfm2": (T.Lfm2Config(**base, conv_L_cache=3, block_multiple_of=32, layer_types=["conv", "full_attention", "conv", "conv"], tie_word_embeddings=True), [40, 600], 1024),
    "lfm2-wide": (T.Lfm2Config(**base, conv_L_cache=5, block_auto_adjust_ff_dim=False, layer_types=["conv", "conv", "full_attention", "full_attention"], tie_word_embeddings=False), [300], 1024),
    "lfm2moe": (T.Lfm2MoeConfig(**base, conv_L_cache=3, layer_types=["conv", "full_attention", "conv", "conv"], num_dense_layers=1, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32), [40, 300], 1024),
    "mamba2": (T.Mamba2Config(**mamba, n_groups=1), [40, 600], 1024),
    "mamba2-groups": (T.Mamba2Config(**mamba, n_groups=2, use_conv_bias=False, tie_word_embeddings=True), [300], 1024),
    "granitehybrid": (T.GraniteMoeHybridConfig(**granite, num_local_experts=8, num_experts_per_tok=3, layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"]), [40, 600], 1024),
    "seed": (T.SeedOssConfig(**base, head_dim=32, attention_bias=True, attention_out_bias=False), [300], 1024),
    "olmo3": (T.Olmo3Config(**{**base, "num_hidden_layers": 6}, sliding_window=48, rope_parameters={"full_attention": rope("yarn", 5e5, factor=8.0, original_max_position_embeddings=256, attention_factor=1.2), "sliding_attention": rope("default", 5e5)}), [40, 600], 1024),
    "ministral": (T.MinistralConfig(**base, head_dim=32, sliding_window=48, layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"]), [40, 600], 1024),
    "cwm": (T.CwmConfig(**base, head_dim=16, sliding_window=48, rope_parameters=rope("llama3", 1e6, factor=16.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)), [40, 600], 1024),
    "helium": (T.HeliumConfig(**base, head_dim=16), [300], 1024),
    "arcee": (T.ArceeConfig(**base), [300], 1024),
    "arcee-yarn": (T.ArceeConfig(**base, head_dim=32, tie_word_embeddings=True, rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=256)), [600], 1024),
    "nemotron": (T.NemotronConfig(**base), [300], 1024),
    "glm": (T.GlmConfig(**base, head_dim=32, rope_parameters=rope("default", partial_rotary_factor=0.5)), [300], 1024),
    "bigcode": (T.GPTBigCodeConfig(**{**gpt2, "activation_function": "gelu_pytorch_tanh"}), [300], 1024),
    "bigcode-heads": (T.GPTBigCodeConfig(**{**gpt2, "n_inner": 96}, multi_query=False), [300], 1024),
    "hunyuan": (T.HunYuanDenseV1Config(**base, head_dim=32), [300], 1024),
    "hunyuan-ntk": (T.HunYuanDenseV1Config(**base, head_dim=16, attention_bias=True, tie_word_embeddings=True, rope_parameters=rope("dynamic", alpha=1000.0, factor=1.0)), [600], 1024),
    "hunyuanmoe": (T.HunYuanMoEV1Config(**base, head_dim=16, num_experts=8, moe_topk=[3, 3, 3, 3]), [40, 300], 1024),
    "glm4moe": (T.Glm4MoeConfig(**base, head_dim=32, attention_bias=True, use_qk_norm=True, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, n_shared_experts=2, routed_scaling_factor=2.5, n_group=4, topk_group=2, num_mtp_layers=0), [40, 600], 1024),
    "glm4moe-air": (T.Glm4MoeConfig(**base, head_dim=16, first_k_dense_replace=2, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=64, norm_topk_prob=False, num_mtp_layers=0), [300], 1024),
    "dots1": (T.Dots1Config(**base, head_dim=32, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, n_shared_experts=2, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, sliding_window=None), [40, 300], 1024),
    "erniemoe": (T.Ernie4_5_MoeConfig(**base, moe_num_experts=8, moe_k=3, moe_intermediate_size=32, moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=-1), [40, 300], 1024),
    "erniemoe-all": (T.Ernie4_5_MoeConfig(**base, tie_word_embeddings=False, moe_num_experts=4, moe_k=2, moe_intermediate_size=64, moe_num_shared_experts=0, moe_layer_start_index=0, moe_layer_end_index=3), [300], 1024),
    "minimax": (T.MiniMaxM2Config(**{**base, "intermediate_size": 64}, head_dim=32, num_local_experts=8, num_experts_per_tok=3, rope_parameters=rope("default", 5e6, partial_rotary_factor=0.5)), [40, 300], 1024),
    "graniteshared": (T.GraniteMoeSharedConfig(**base, num_local_experts=8, num_experts_per_tok=3, shared_intermediate_size=80, attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.3, logits_scaling=4.0), [300], 1024),
    "deepseek1": (T.DeepseekV2Config(**{**deepseek, "num_key_value_heads": 4}, q_lora_rank=None, first_k_dense_replace=1, n_shared_experts=2, norm_topk_prob=False, topk_method="greedy", num_mtp_layers=0), [40, 300], 1024),
    "granitehybrid-dense": (T.GraniteMoeHybridConfig(**granite, num_local_experts=0, position_embedding_type="rope", layer_types=["linear_attention", "linear_attention", "full_attention", "full_attention"]), [300], 1024),
    "opt": (T.OPTConfig(**elder, num_hidden_layers=4, num_attention_heads=4, ffn_dim=96, max_position_embeddings=1024, word_embed_proj_dim=64), [300, 1000], 1024),
    "opt-galactica": (T.OPTConfig(**elder, num_hidden_layers=2, num_attention_heads=8, ffn_dim=256, max_position_embeddings=512, word_embed_proj_dim=64, activation_function="gelu", enable_bias=False, tie_word_embeddings=False), [300], 512),
    "gptneo": (T.GPTNeoConfig(**elder, num_layers=4, num_heads=4, window_size=48, max_position_embeddings=1024, attention_types=[[["global", "local"], 2]]), [40, 600], 1024),
    "gptneo-local": (T.GPTNeoConfig(**elder, num_layers=3, num_heads=2, window_size=7, max_position_embeddings=1024, intermediate_size=96, attention_types=[[["local"], 2], [["global"], 1]]), [300], 1024),
    "gptj": (T.GPTJConfig(**gpt2, rotary_dim=8), [300], 1024),
    "gptj-tied": (T.GPTJConfig(**{**gpt2, "n_inner": 96}, rotary_dim=16, tie_word_embeddings=True, activation_function="gelu"), [300], 1024),
    "codegen": (T.CodeGenConfig(**gpt2, rotary_dim=8), [300], 1024),
    "codegen-eight": (T.CodeGenConfig(**{**gpt2, "n_head": 8}, rotary_dim=4), [300], 1024),
    "bloom": (T.BloomConfig(vocab_size=V, hidden_size=64, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=1), [300, 1000], 1024),
    "bloom-six": (T.BloomConfig(vocab_size=V, hidden_size=96, n_layer=2, n_head=6, bos_token_id=0, eos_token_id=1, tie_word_embeddings=False), [300], 1024),
    "mpt": (T.MptConfig(vocab_size=V, d_model=64, n_heads=4, n_layers=4, max_seq_len=1024), [300, 1000], 1024),
    "mpt-six": (T.MptConfig(vocab_size=V, d_model=96, n_heads=6, n_layers=2, max_seq_len=1024, expansion_ratio=2, attn_config=dict(softmax_scale=0.2)), [300], 1024),
    "gemma4": (T.Gemma4TextConfig(**{**base, "num_hidden_layers": 12}, head_dim=16, global_head_dim=32, sliding_window=48, hidden_size_per_layer_input=24, vocab_size_per_layer_input=V,
        num_kv_shared_layers=4, use_double_wide_mlp=True, layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 3), [40, 600], 1024),
    "gemma4-equal": (T.Gemma4TextConfig(**{**base, "num_hidden_layers": 6, "num_key_value_heads": 4}, head_dim=32, global_head_dim=64, num_global_key_value_heads=1, attention_k_eq_v=True, sliding_window=280,
        hidden_size_per_layer_input=0, final_logit_softcapping=20.0, use_bidirectional_attention="vision", tie_word_embeddings=False,
        rope_parameters={"full_attention": rope("proportional", 1e6, partial_rotary_factor=0.5, factor=2.0), "sliding_attention": rope("default", 500.0)}), [100, 600], 1024),
    "gemma3n": (T.Gemma3nTextConfig(**{**base, "num_hidden_layers": 10}, head_dim=32, sliding_window=48, num_kv_shared_layers=4, laurel_rank=16, hidden_size_per_layer_input=32,
        vocab_size_per_layer_input=480, activation_sparsity_pattern=[0.95] * 3 + [0.0] * 7), [40, 600], 1024),
    "gemma3n-three": (T.Gemma3nTextConfig(**{**base, "num_hidden_layers": 5}, head_dim=16, sliding_window=280, num_kv_shared_layers=0, altup_num_inputs=3, laurel_rank=24, hidden_size_per_layer_input=20,
        vocab_size_per_layer_input=V, activation_sparsity_pattern=[0.0, 0.3, 0.7, 0.0, 0.95], tie_word_embeddings=False, final_logit_softcapping=12.0, hidden_activation="silu",
        layer_types=["full_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention"],
        rope_parameters={"full_attention": rope("linear", 5e5, factor=4.0), "sliding_attention": rope("default", 500.0)}), [100, 600], 1024),
}
models |= {
    "gemma4-moe": (T.Gemma4TextConfig(**{**base, "num_hidden_layers": 6}, head_dim=16, global_head_dim=32, num_global_key_value_heads=1, attention_k_eq_v=True, sliding_window=48, hidden_size_per_layer_input=0,
        enable_moe_block=True, num_experts=8, top_k_experts=3, moe_intermediate_size=32, final_logit_softcapping=30.0), [40, 600], 1024),
    "gemma4-moe-inputs": (T.Gemma4TextConfig(**{**base, "num_hidden_layers": 8}, head_dim=16, global_head_dim=32, sliding_window=48, hidden_size_per_layer_input=24, vocab_size_per_layer_input=V, num_kv_shared_layers=3,
        use_double_wide_mlp=True, enable_moe_block=True, num_experts=4, top_k_experts=1, moe_intermediate_size=64, tie_word_embeddings=False, layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 2), [300], 1024),
}
hybrid = dict(mamba_n_heads=8, mamba_n_groups=2, mamba_d_state=16, mamba_chunk_size=64)
nemotron = dict(**elder, num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=2048, intermediate_size=96, ssm_state_size=16, mamba_num_heads=8, mamba_head_dim=16, n_groups=2, chunk_size=64)
models |= {
    "glm4moelite": (T.Glm4MoeLiteConfig(**{**deepseek, "num_hidden_layers": 3}, q_lora_rank=24, n_shared_experts=1, mlp_layer_types=["dense", "sparse", "sparse"]), [40, 300], 1024),
    "flexolmo": (T.FlexOlmoConfig(**{**base, "num_key_value_heads": 4}, num_experts=8, num_experts_per_tok=3), [40, 300], 1024),
    "flexolmo-norm": (T.FlexOlmoConfig(**base, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True), [300], 1024),
    "apertus": (T.ApertusConfig(**base), [40, 600], 1024),
    "apertus-plain": (T.ApertusConfig(**base, rope_parameters=rope("default", 5e5), tie_word_embeddings=True), [300], 1024),
    "solaropen": (T.SolarOpenConfig(**{k: v for k, v in base.items() if k != "intermediate_size"}, head_dim=32, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, n_shared_experts=2, routed_scaling_factor=2.0), [40, 300], 1024),
    "bamba": (T.BambaConfig(**base, **hybrid, attn_layer_indices=[1, 3]), [40, 600], 1024),
    "bamba-groups": (T.BambaConfig(**{**base, "num_hidden_layers": 3}, **{**hybrid, "mamba_n_groups": 1}, mamba_d_head=16, attn_layer_indices=[2], rope_parameters=rope("default", 1e5, partial_rotary_factor=1.0)), [300], 1024),
    "nemotronh": (T.NemotronHConfig(**nemotron, layers_block_type=["mamba", "mlp", "attention", "mlp", "mamba", "mlp"]), [40, 600], 1024),
    "nemotronh-moe": (T.NemotronHConfig(**nemotron, layers_block_type=["mamba", "moe", "attention", "moe", "mamba", "moe"], n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=48,
        moe_shared_expert_intermediate_size=80, routed_scaling_factor=2.5), [40, 300], 1024),
}


def byte_level():
    """A byte-level BPE of V tokens, learnt from this file, as Llama 3 and Qwen have."""
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=V, special_tokens=["<bos>", "<eos>", "<pad>"],
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train([__file__], trainer)
    return T.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>")


def sentence_piece(prefix):
    """A BPE on characters with bytes for what it does not know, as Gemma has
    and, with a prefix, Llama 2, Mistral and Phi-3."""
    with open(__file__) as f:
        text = f.read().replace(" ", "\u2581")
    learner = tokenizers.Tokenizer(tokenizers.models.BPE())
    learner.train_from_iterator([text], tokenizers.trainers.BpeTrainer(vocab_size=V - 260, show_progress=False))
    learnt = json.loads(learner.to_str())["model"]
    vocab = {t: i for i, t in enumerate(["<bos>", "<eos>", "<pad>", "<unk>"] + ["<0x%02X>" % b for b in range(256)])}
    for piece in sorted(learnt["vocab"], key=learnt["vocab"].get):
        vocab[piece] = len(vocab)
    # All the pairs that lead to a piece, as files made of SentencePiece's models have them.
    merges = []
    for piece in sorted(vocab, key=vocab.get):
        if vocab[piece] >= 260 and len(piece) > 1:
            merges += [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocab and piece[i:] in vocab]
    t = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    n = tokenizers.normalizers
    replace = n.Replace(" ", "\u2581")
    t.normalizer = n.Sequence([n.Prepend("\u2581"), replace]) if prefix else replace
    if not prefix:  # as Gemma's files have it; there are no spaces left
        t.pre_tokenizer = tokenizers.pre_tokenizers.Split(" ", "merged_with_previous")
    d = tokenizers.decoders
    t.decoder = d.Sequence([d.Replace("\u2581", " "), d.ByteFallback(), d.Fuse()])
    t.add_special_tokens(["<bos>", "<eos>", "<pad>", "<unk>"])
    t.post_processor = tokenizers.processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 0)])
    return T.PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>")


def tokenizer(name):
    if name.startswith("gemma"):
        return sentence_piece(False)
    return sentence_piece(True) if name.startswith(("mistral", "mixtral", "phi3")) else byte_level()


def randomise(model, r):
    """Weights large enough that every part of the model shows in the logits."""
    gemma = "Gemma" in type(model).__name__ and not type(model).__name__.startswith(("Gemma3n", "Gemma4")) or "Nemotron" in type(model).__name__
    # Experts whose matrices are stored with the inputs first.
    flipped = "GptOss" in type(model).__name__
    for name, p in model.named_parameters():
        if p.dim() == 1:
            middle = 0.0 if name.endswith("bias") or gemma else 1.0
            v = middle + 0.2 * r.standard_normal(p.shape)
            if name.endswith("dt_bias"):
                v -= 2
        elif name.endswith("e_score_correction_bias"):
            v = 0.05 * r.standard_normal(p.shape)
        elif "wpe" in name or "embed_positions" in name:
            v = 0.2 * r.standard_normal(p.shape)
        elif "embed" in name or "wte" in name:
            v = 0.5 * r.standard_normal(p.shape)
        else:
            fan = p.shape[-2] if flipped and "experts" in name or "Conv1D" in str(type(model.get_submodule(name.rsplit(".", 1)[0]))) else p.shape[-1]
            v = 1.2 * r.standard_normal(p.shape) / np.sqrt(fan)
        p.data = torch.tensor(v, dtype=torch.float32)
    for name, p in model.named_buffers():
        if name.endswith("layer_scalar"):
            p.copy_(torch.tensor(1 + 0.2 * r.standard_normal(p.shape), dtype=torch.float32))
        if name.endswith(("e_score_correction_bias", "expert_bias")):
            p.copy_(torch.tensor(0.2 * r.standard_normal(p.shape), dtype=torch.float32))
    model.tie_weights()


def four_bits(model, r):
    """Makes the experts of gpt-oss multiples of MXFP4's numbers, and returns the
    tensors of its folders."""
    values = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    values = torch.tensor(values + [-v for v in values])
    out = {}
    for name, p in list(model.named_parameters()):
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        experts, inputs, outputs = p.shape
        numbers = torch.tensor(r.integers(0, 16, (experts, outputs, inputs // 32, 32)), dtype=torch.uint8)
        exponents = torch.tensor(r.integers(122, 125, (experts, outputs, inputs // 32)), dtype=torch.uint8)
        exact = values[numbers.long()] * torch.exp2(exponents.float() - 127)[..., None]
        p.data = exact.reshape(experts, outputs, inputs).transpose(1, 2).contiguous()
        out[name + "_blocks"] = (numbers[..., 0::2] | numbers[..., 1::2] << 4).contiguous()
        out[name + "_scales"] = exponents
    return out


def write_four_bits(folder, blocks):
    from safetensors.torch import load_file, save_file
    path = os.path.join(folder, "model.safetensors")
    tensors = {k: v for k, v in load_file(path).items() if k + "_blocks" not in blocks}
    save_file({**tensors, **blocks}, path, {"format": "pt"})
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    config["quantization_config"] = dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"])
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)


def first_deepseek(config):
    """DeepSeek's first model with experts, which transformers has in no class: a Llama with
    the feed-forward halves of version 2."""
    from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2Moe
    model = T.LlamaForCausalLM(T.LlamaConfig(**base, attn_implementation="eager")).eval()
    for layer in model.model.layers[config.first_k_dense_replace:]:
        layer.mlp = DeepseekV2Moe(config)
    return model.eval()


def save_first_deepseek(model, config, folder):
    from safetensors.torch import save_file
    tensors = {}
    for name, t in model.state_dict().items():
        for part, rows in (("gate_up_proj", ("gate_proj", "up_proj")), ("down_proj", ("down_proj",))):
            stem, cut, _ = name.partition(".experts." + part)
            if cut:
                for e in range(t.shape[0]):
                    for one, half in zip(rows, t[e].chunk(len(rows))):
                        tensors[f"{stem}.experts.{e}.{one}.weight"] = half.contiguous()
                break
        else:
            tensors[name] = t.contiguous()
    os.makedirs(folder, exist_ok=True)
    save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    keys = dict(architectures=["DeepseekForCausalLM"], model_type="deepseek", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000.0, attention_bias=False, tie_word_embeddings=False,
                scoring_func="softmax", moe_layer_freq=1, seq_aux=True, aux_loss_alpha=0.001, auto_map={"AutoModelForCausalLM": "modeling_deepseek.DeepseekForCausalLM"})
    for key in ("n_routed_experts", "n_shared_experts", "num_experts_per_tok", "moe_intermediate_size", "first_k_dense_replace", "norm_topk_prob"):
        keys[key] = getattr(config, key)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({**base, **keys}, f)


PROMPTS = ["def rope(kind):", "Greedy ids of", "import numpy as np\n\n", "for name in models", "a model of every", "with torch.no_grad()", "The second day", "\u00fcber 42"]


def prompted(model, tok, prompts):
    """The greedy ids after the first prompt whose two best logits differ enough, or the one where they differ most."""
    most = dict(margin=0)
    for prompt in prompts:
        text = tok(prompt)["input_ids"]
        n, margin = len(text), float("inf")
        for _ in range(32):
            with torch.no_grad():
                row = model(torch.tensor([text]), use_cache=False).logits[0, -1].float()
            best = row.topk(2)
            margin = min(margin, float(best.values[0] - best.values[1]))
            text.append(int(best.indices[0]))
        if margin > most["margin"]:
            most = dict(prompt=prompt, positions=n, ids=text[n:], margin=margin)
        if margin > 0.02:  # keys and values in 16 bits may change a token below
            break
    return [most]


TEMPLATE = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


def second_day(out, name, config, tok, seed):
    """Folders of the model as people have them: many shards, halves, the output tied or not, a template, another name."""
    import copy
    for kind in ("shards", "bf16", "f16", "tie", "template", "Renamed Model (v2).final"):
        r = np.random.default_rng(seed)
        c = copy.deepcopy(config)
        if kind == "tie":
            c.tie_word_embeddings = not c.tie_word_embeddings
        model = T.AutoModelForCausalLM.from_config(c, attn_implementation="eager").eval()
        randomise(model, r)
        folder = os.path.join(out, "second", f"{name} {kind}")
        if kind in ("bf16", "f16"):
            model = model.to(torch.bfloat16 if kind == "bf16" else torch.float16)
        model.save_pretrained(folder, max_shard_size="60KB" if kind == "shards" else "5GB")
        tok.save_pretrained(folder)
        prompts, ask = PROMPTS, list(PROMPTS)
        if kind == "template":
            with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
                f.write(TEMPLATE)
            ask = [f"<user> {p}\n<assistant>" for p in PROMPTS]
        model = T.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
        cases = prompted(model, tok, ask)
        for case in cases:
            case["prompt"] = prompts[ask.index(case["prompt"])]
        with open(os.path.join(folder, "prompts.json"), "w") as f:
            json.dump(cases, f)


SECOND = {"qwen3next", "qwen35", "qwen35moe", "glm4moe", "olmo3"}


def main(out, only):
    os.makedirs(out, exist_ok=True)
    for number, (name, (config, lengths, contexts)) in enumerate(models.items()):
        if only and name not in only:
            continue
        r = np.random.default_rng(number)
        config._attn_implementation = "eager"
        model = first_deepseek(config) if name == "deepseek1" else T.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        randomise(model, r)
        blocks = four_bits(model, r) if name.endswith("mxfp4") else {}
        tok = tokenizer(name)
        folder = os.path.join(out, name)
        # The second model of a family comes in shards, and some as halves.
        if name == "deepseek1":
            save_first_deepseek(model, config, folder)
        else:
            model.save_pretrained(folder, max_shard_size="200KB" if number % 3 == 1 and not blocks else "5GB")
        tok.save_pretrained(folder)
        if blocks:
            write_four_bits(folder, blocks)
        cases = []
        for i, n in enumerate(lengths):
            ids = [int(x) for x in r.integers(3, V, n)]
            with torch.no_grad():
                logits = model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()
            file = f"{name}.{n}.f32"
            logits.astype("<f4").tofile(os.path.join(out, file))
            greedy, text = [], list(ids)
            for _ in range(32 if name.startswith(("qwen3next", "qwen35", "gemma3n", "gemma4")) else 16):
                with torch.no_grad():
                    row = model(torch.tensor([text]), use_cache=False).logits[0, -1]
                greedy.append(int(row.argmax()))
                text.append(greedy[-1])
            cases.append(dict(context=contexts[i] if isinstance(contexts, tuple) else contexts, tokens=ids, logits=file, greedy=greedy))
        texts = ["def rope(kind): return kind  # it's 42", " two  spaces", "\u00fcber \U0001f600 \u4e2d", "", "<eos> is text\n\n\tand"]
        with open(os.path.join(out, name + ".json"), "w") as f:
            json.dump(dict(architecture=config.model_type, vocabulary=V, cases=cases, prompts=prompted(model, tok, PROMPTS),
                           texts=[dict(text=t, ids=tok(t)["input_ids"]) for t in texts]), f)
        if name in SECOND:
            second_day(out, name, config, tok, number)
        print(name, flush=True)


def formula(name, shape, offset, scale):
    """offset + scale times numbers of -0.5 to 0.5 that follow from the name."""
    state, out = zlib.crc32(name.encode()), np.empty(int(np.prod(shape)))
    for i in range(out.size):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = (state >> 8) / 2**24 - 0.5
    return torch.tensor((offset + scale * out).astype("<f4")).reshape(shape)


def golden(out, names):
    from safetensors.torch import load_file, save_file
    for name in names:
        config = models[name][0]
        model = T.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            path = os.path.join(folder, "model.safetensors")
            tensors, formulas = load_file(path), {}
            for key, t in sorted(tensors.items()):
                scale = 0.7 if t.dim() < 2 else 1.7 if "embed" in key else 4 / t.shape[-1] ** 0.5
                formulas[key] = dict(shape=list(t.shape), offset=1.0 if key.endswith(("norm.weight", "layernorm.weight", "layer_scalar")) else 0.0, scale=round(scale, 6))
                tensors[key] = formula(key, **formulas[key])
            save_file(tensors, path, {"format": "pt"})
            model = T.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
            with open(os.path.join(folder, "config.json")) as f:
                config = json.load(f)
        ids = [(7 * i * i + 3 * i + 5) % V for i in range(40)]
        with torch.no_grad():
            logits = model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()
        with open(os.path.join(out, name + ".json"), "w") as f:
            json.dump(dict(config=config, tensors=formulas, tokens=ids,
                           logits={str(i): [round(float(x), 5) for x in logits[i][:32]] for i in (0, 20, 39)}), f, sort_keys=True, separators=(",", ":"))
            f.write("\n")


if sys.argv[1] == "--golden":
    golden(sys.argv[2], sys.argv[3:])
else:
    main(sys.argv[1], sys.argv[2:])
