"""Writes tiny random vision towers and projectors of transformers with their
results, for the tests of onnx/tower: config.json and one safetensors file each,
which holds the weights and in, features and out.

    python scripts/towers.py onnx/tower/testdata [NAME ...]    # transformers 5.23, torch 2.15
"""
import json
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForImageTextToText, CONFIG_MAPPING, Qwen2AudioForConditionalGeneration, VoxtralForConditionalGeneration

VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=4)
TEXT = dict(hidden_size=12, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, vocab_size=64, head_dim=6)
FAMILIES = {
    "llava": dict(vision_config=dict(VISION, model_type="clip_vision_model", num_hidden_layers=3), image_token_index=63, vision_feature_layer=-2),
    "llava-siglip": dict(model_type="llava", vision_config=dict(VISION, model_type="siglip_vision_model", num_hidden_layers=3),
                         image_token_index=63, vision_feature_select_strategy="full"),
    "gemma3": dict(vision_config=dict(VISION, model_type="siglip_vision_model"), text_config=dict(TEXT, model_type="gemma3_text"), mm_tokens_per_image=4,
                   image_token_index=63),
    "paligemma": dict(vision_config=dict(VISION, model_type="siglip_vision_model"), text_config=dict(TEXT, model_type="gemma"), projection_dim=12,
                      image_token_index=63),
    "idefics3": dict(vision_config=dict(VISION, image_size=16), scale_factor=2, image_token_id=63),
    "smolvlm": dict(vision_config=dict(VISION, image_size=32), scale_factor=4, image_token_id=63),
    "internvl": dict(vision_config=dict(VISION, image_size=[16, 16], patch_size=[4, 4]), image_token_id=63),
    "internvl-rms": dict(model_type="internvl", vision_config=dict(VISION, norm_type="rms_norm", use_qk_norm=True, attention_bias=True), image_token_id=63),
    "pixtral": dict(model_type="llava", vision_config=dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=2,
                    num_attention_heads=2, image_size=64, patch_size=4), image_token_index=63, vision_feature_layer=-1, vision_feature_select_strategy="full"),
    "llava_next": dict(vision_config=dict(VISION, model_type="clip_vision_model", num_hidden_layers=3), image_token_index=63, image_grid_pinpoints=[[16, 16]]),
    "llava_onevision": dict(vision_config=dict(VISION, model_type="siglip_vision_model", vision_use_head=False), image_token_index=63, image_grid_pinpoints=[[16, 16]],
                            text_config=dict(TEXT, model_type="qwen2")),
    "mistral3": dict(vision_config=dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=64,
                     patch_size=4), image_token_index=63, text_config=dict(TEXT, model_type="mistral"), spatial_merge_size=2),
    "qwen2_audio": dict(audio_config=dict(d_model=16, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=24, num_mel_bins=8, max_source_positions=20),
                        text_config=dict(TEXT, model_type="qwen2"), audio_token_index=63),
    "voxtral": dict(audio_config=dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_mel_bins=8, max_source_positions=20),
                    audio_token_id=63),
    "qwen2_vl": dict(vision_config=dict(depth=2, embed_dim=16, hidden_size=12, num_heads=2, patch_size=4), text_config=dict(TEXT, model_type="qwen2_vl_text",
                     rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 1])), image_token_id=63),
    "qwen2_5_vl": dict(vision_config=dict(depth=3, hidden_size=16, out_hidden_size=12, intermediate_size=24, num_heads=2, patch_size=4, window_size=16,
                       fullatt_block_indexes=[1]), text_config=dict(TEXT, model_type="qwen2_5_vl_text",
                       rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 1])), image_token_id=63),
    "qwen3_vl": dict(vision_config=dict(depth=4, hidden_size=16, out_hidden_size=12, intermediate_size=24, num_heads=2, patch_size=4,
                     num_position_embeddings=25, deepstack_visual_indexes=[0, 2]), text_config=dict(TEXT, model_type="qwen3_vl_text", num_hidden_layers=3,
                     rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 1], mrope_interleaved=True)), image_token_id=63),
}


def grid(model, kind, name):
    """Pixels, features and vectors of a tower for pictures of any size."""
    h, w = 40, 56
    pixels = torch.randn(1, 3, h, w)
    core = model.model
    if kind in ("llava", "mistral3"):
        got = {}
        core.multi_modal_projector.register_forward_hook(lambda m, i, o: got.update(i=i[0], o=o))
        more = dict(vision_feature_select_strategy="full") if kind == "llava" else {}
        core.get_image_features(pixels, vision_feature_layer=-1, image_sizes=torch.tensor([[h, w]]), **more)
        return pixels, got["i"].reshape(1, -1, 16), got["o"].reshape(1, -1, 12)
    p, m = 4, 2
    x = pixels[0].reshape(3, h // p // m, m, p, w // p // m, m, p).permute(1, 4, 2, 5, 0, 3, 6)  # blocks, then patches
    x = x.unsqueeze(5).expand(-1, -1, -1, -1, -1, 2, -1, -1).reshape(-1, 3 * 2 * p * p)
    out = core.visual(x, grid_thw=torch.tensor([[1, h // p, w // p]]))
    vectors = torch.cat([out.pooler_output] + list(getattr(out, "deepstack_features", None) or []), -1)
    return pixels, out.last_hidden_state[None], vectors[None]


def tiled(model):
    """Pixels, features and vectors of a tile, followed by the vector that ends a row."""
    got, core = {}, model.model
    pixels = torch.randn(1, 2, 3, 16, 16)
    core.multi_modal_projector.register_forward_hook(lambda m, i, o: got.update(i=i[0], o=o))
    core.get_image_features(pixels, image_sizes=torch.tensor([[16, 16]]), vision_feature_layer=model.config.vision_feature_layer,
                            vision_feature_select_strategy=model.config.vision_feature_select_strategy)
    return pixels[:, 0], got["i"][:1], torch.cat([got["o"][:1], core.image_newline[None, None]], 1)


def heard(model, kind):
    """Mel frames, features and vectors of a sound."""
    mel = torch.randn(1, 8, 40)
    core = model.model
    x = core.audio_tower(mel).last_hidden_state
    out = core.multi_modal_projector(x.reshape(1, -1, 64) if kind == "voxtral" else x)
    if kind == "qwen2_audio":  # and the frame after the sound
        mel = torch.cat([mel, torch.zeros(1, 8, 1)], 2)
    return mel, x, out


def main(folder, *names):
    for name, keys in FAMILIES.items():
        if names and name not in names:
            continue
        torch.manual_seed(len(name))
        keys = dict(keys)
        kind = keys.pop("model_type", name)
        keys.setdefault("text_config", dict(TEXT, model_type="llama"))
        config = CONFIG_MAPPING[kind](**keys)
        audio = dict(qwen2_audio=Qwen2AudioForConditionalGeneration, voxtral=VoxtralForConditionalGeneration).get(kind)
        model = (audio(config) if audio else AutoModelForImageTextToText.from_config(config)).eval().float()
        with torch.no_grad():
            for p in model.parameters():  # large enough that every part matters
                p.add_(torch.randn_like(p) * 0.3)
        if audio or kind.startswith("qwen") or name in ("pixtral", "mistral3", "llava_next", "llava_onevision"):
            with torch.no_grad():
                grabbed = heard(model, kind) if audio else tiled(model) if name.startswith("llava") else grid(model, kind, name)
            save(folder, name, model, *grabbed)
            continue
        size = model.config.vision_config.image_size
        size = size[0] if isinstance(size, (list, tuple)) else size
        pixels = torch.randn(1, 3, size, size)
        grabbed = {}
        core = model.model
        projector = getattr(core, "multi_modal_projector", None) or core.connector
        projector.register_forward_hook(lambda m, i, o: grabbed.update(i=i[0], o=o))
        with torch.no_grad():
            if kind in ("idefics3", "smolvlm"):
                core.get_image_features(pixels[None])
            elif kind == "llava":
                core.get_image_features(pixels, vision_feature_layer=config.vision_feature_layer,
                                        vision_feature_select_strategy=config.vision_feature_select_strategy)
            elif kind == "internvl":
                core.get_image_features(pixels, vision_feature_layer=config.vision_feature_layer,
                                        vision_feature_select_strategy=config.vision_feature_select_strategy)
            else:
                core.get_image_features(pixels)
        save(folder, name, model, pixels, grabbed["i"], grabbed["o"])


def save(folder, name, model, pixels, features, vectors):
    tensors = {k: v for k, v in model.state_dict().items() if "language_model" not in k and "text_model" not in k and "lm_head" not in k}
    tensors.update({"test.in": pixels, "test.features": features, "test.out": vectors})
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, os.path.join(folder, name + ".safetensors"))
    with open(os.path.join(folder, name + ".json"), "w") as f:
        json.dump(json.loads(model.config.to_json_string()), f, sort_keys=True)
        f.write("\n")
    print(name, tuple(features.shape), tuple(vectors.shape))


main(*sys.argv[1:])
