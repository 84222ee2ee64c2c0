"""Writes tiny random vision towers and projectors of transformers with their
results, for the tests of onnx/tower: config.json and one safetensors file each,
which holds the weights and in, features and out.

    python scripts/towers.py onnx/tower/testdata    # transformers 5.23, torch 2.15
"""
import json
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForImageTextToText, CONFIG_MAPPING

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
}


def main(folder):
    for name, keys in FAMILIES.items():
        torch.manual_seed(len(name))
        keys = dict(keys)
        kind = keys.pop("model_type", name)
        keys.setdefault("text_config", dict(TEXT, model_type="llama"))
        config = CONFIG_MAPPING[kind](**keys)
        model = AutoModelForImageTextToText.from_config(config).eval().float()
        with torch.no_grad():
            for p in model.parameters():  # large enough that every part matters
                p.add_(torch.randn_like(p) * 0.3)
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
        tensors = {k: v for k, v in model.state_dict().items() if "language_model" not in k and "text_model" not in k and "lm_head" not in k}
        tensors.update({"test.in": pixels, "test.features": grabbed["i"], "test.out": grabbed["o"]})
        save_file({k: v.contiguous().clone() for k, v in tensors.items()}, os.path.join(folder, name + ".safetensors"))
        with open(os.path.join(folder, name + ".json"), "w") as f:
            json.dump(json.loads(model.config.to_json_string()), f, sort_keys=True)
            f.write("\n")
        print(name, tuple(grabbed["i"].shape), tuple(grabbed["o"].shape), [k for k in tensors if "embed" in k][:4])


main(sys.argv[1])
