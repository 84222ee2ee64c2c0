"""Makes folders of tiny random language models of transformers that take pictures or
sounds, with tokenizer, processor, chat template and inputs, and cases.json: the greedy ids
that transformers continues each prompt with.

    python scripts/strangers.py OUT [FAMILY ...]
    python scripts/strangers.py --small cmd/mm/testdata/vision gemma3 smolvlm pixtral qwen3_vl llava_onevision paligemma qwen2_audio voxtral qwen3_vl_moe lighton_ocr

transformers 5.23, torch 2.15, pillow 12.1. The weights are exact in 16 bits.
"""
import json
import os
import sys
import wave

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForImageTextToText, CONFIG_MAPPING, PreTrainedTokenizerFast
from transformers import Qwen2AudioForConditionalGeneration, Qwen2AudioProcessor, VoxtralForConditionalGeneration, WhisperFeatureExtractor
from transformers import Gemma3Processor, Idefics3Processor, InternVLProcessor, LlavaNextProcessor, LlavaOnevisionProcessor, LlavaProcessor
from transformers import LightOnOcrProcessor, PaliGemmaProcessor, PixtralProcessor, SmolVLMProcessor
from transformers import Qwen2_5_VLProcessor, Qwen2VLProcessor, Qwen3VLProcessor
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
from transformers.models.llava_onevision.video_processing_llava_onevision import LlavaOnevisionVideoProcessor
from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
from transformers.models.smolvlm.video_processing_smolvlm import SmolVLMVideoProcessor

SPECIAL = (
    ["<s>", "</s>", "<pad>", "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", "<IMG_CONTEXT>", "<img>", "</img>",
     "<start_of_image>", "<end_of_image>", "<image_soft_token>", "<|im_start|>", "<|im_end|>", "<video>", "<start_of_turn>", "<end_of_turn>",
     "[IMG]", "[IMG_BREAK]", "[IMG_END]", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>", "[AUDIO]", "[BEGIN_AUDIO]"]
    + [f"<row_{r}_col_{c}>" for r in range(1, 7) for c in range(1, 7)])
TEXTS = ["What is in this picture?\n\nA red circle above the blue square.\n", "User: Describe it. Assistant: USER ASSISTANT\n\n"] * 20
SIZES = [[(64, 48)], [(30, 90)], [(97, 33)], [(28, 28)], [(50, 51)], [(64, 48), (30, 60)], [(20, 20), (90, 30), (40, 80)], [(16, 64), (64, 16), (33, 47), (80, 80)]]
QUESTION = "What is in this picture?"
TURN = "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}{% if c['type'] == 'image' %}MARKER{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}"
CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n" + TURN + "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
QWEN = CHATML.replace("MARKER", "<|vision_start|><|image_pad|><|vision_end|>")
IDEFICS = ("<|im_start|>{% for m in messages %}{{ m['role'] | capitalize }}{% if m['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}"
           + TURN.replace("MARKER", "<image>") + "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")
TEMPLATES = {
    "llava": "{% for m in messages %}{{ m['role'].upper() + ': ' }}" + TURN.replace("MARKER", "<image>\n") + " {% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}",
    "gemma3": "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ m['role'] }}\n" + TURN.replace("MARKER", "<start_of_image>")
              + "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}",
    "idefics3": IDEFICS, "smolvlm": IDEFICS, "internvl": CHATML.replace("MARKER", "<IMG_CONTEXT>\n"),
    "pixtral": "{{ bos_token }}{% for m in messages %}[INST]" + TURN.replace("MARKER", "[IMG]") + "[/INST]{% endfor %}",
    "qwen2_vl": QWEN, "qwen2_5_vl": QWEN, "qwen3_vl": QWEN, "qwen3_vl_moe": QWEN, "qwen3_5": QWEN, "qwen3_5_moe": QWEN,
    "llava_next": "{% for m in messages %}[INST] " + TURN.replace("MARKER", "<image>\n") + " [/INST]{% endfor %}",
    "llava_onevision": CHATML.replace("MARKER", "<image>"), "paligemma": None, "paligemma2": None,
}
TEMPLATES["mistral3"] = TEMPLATES["pixtral"]
TEMPLATES["lighton_ocr"] = CHATML.replace("MARKER", "<|image_pad|>")
ANYRES = ("llava_next", "llava_onevision")
FIXED = ("llava", "gemma3", "internvl", "idefics3", "smolvlm", "paligemma", "paligemma2") + ANYRES
SMALL = "--small" in sys.argv
VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2) if SMALL else dict(
    hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2)
TEXT = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=16) if SMALL else dict(
    hidden_size=48, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16)


def tokenizer(size):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok = PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
                                  extra_special_tokens=dict(image_token="<image>", boi_token="<start_of_image>", eoi_token="<end_of_image>"))
    return tok, lambda s: tok.convert_tokens_to_ids(s)


def fixed(family, tok, tid, text):
    """Families whose pictures or tiles have one size."""
    if family == "llava":
        config = CONFIG_MAPPING[family](vision_config=dict(VISION, model_type="clip_vision_model", image_size=28, patch_size=7), text_config=text,
                                        image_token_index=tid("<image>"), image_seq_length=16)
        image = CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
        return config, LlavaProcessor(image_processor=image, tokenizer=tok, patch_size=7, vision_feature_select_strategy="default",
                                      num_additional_image_tokens=1, image_token="<image>")
    if family == "gemma3":
        text = dict(text, model_type="gemma3_text", sliding_window=24, num_hidden_layers=6, query_pre_attn_scalar=16)
        config = CONFIG_MAPPING[family](vision_config=dict(VISION, model_type="siglip_vision_model", image_size=56, patch_size=7), text_config=text,
                                        mm_tokens_per_image=16, image_token_index=tid("<image_soft_token>"), boi_token_index=tid("<start_of_image>"),
                                        eoi_token_index=tid("<end_of_image>"))
        tok.image_token, tok.image_token_id = "<image_soft_token>", tid("<image_soft_token>")
        return config, Gemma3Processor(image_processor=Gemma3ImageProcessorPil(size={"height": 56, "width": 56}), tokenizer=tok, image_seq_length=16)
    if family == "llava_next":
        config = CONFIG_MAPPING[family](vision_config=dict(VISION, model_type="clip_vision_model", image_size=28, patch_size=7), text_config=dict(text, model_type="mistral"),
                                        image_token_index=tid("<image>"), image_grid_pinpoints=[[28, 56], [56, 28], [56, 56], [84, 28], [28, 84]], image_seq_length=16)
        image = LlavaNextImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}, image_grid_pinpoints=config.image_grid_pinpoints)
        return config, LlavaNextProcessor(image_processor=image, tokenizer=tok, patch_size=7, vision_feature_select_strategy="default",
                                          num_additional_image_tokens=1, image_token="<image>")
    if family == "llava_onevision":
        tok.video_token = "<video>"
        points = [[28 * (i + 1), 28 * (j + 1)] for i in range(3) for j in range(3)]
        config = CONFIG_MAPPING[family](vision_config=dict(VISION, model_type="siglip_vision_model", image_size=28, patch_size=7, vision_use_head=False),
                                        text_config=dict(text, model_type="qwen2"), image_token_index=tid("<image>"), video_token_index=tid("<video>"),
                                        image_grid_pinpoints=points, vision_aspect_ratio="anyres_max_3")
        image = LlavaOnevisionImageProcessorPil(size={"height": 28, "width": 28}, image_grid_pinpoints=points)
        return config, LlavaOnevisionProcessor(image_processor=image, tokenizer=tok, video_processor=LlavaOnevisionVideoProcessor(), num_image_tokens=16,
                                               vision_feature_select_strategy="full", image_token="<image>", video_token="<video>", vision_aspect_ratio="anyres_max_3")
    if family.startswith("paligemma"):
        text = dict(text, model_type="gemma")
        if family == "paligemma2":
            text = dict(text, model_type="gemma2", sliding_window=24, query_pre_attn_scalar=16)
        config = CONFIG_MAPPING["paligemma"](vision_config=dict(VISION, model_type="siglip_vision_model", image_size=28, patch_size=7, vision_use_head=False),
                                             text_config=text, image_token_index=tid("<image>"), projection_dim=text["hidden_size"], hidden_size=text["hidden_size"],
                                             tie_word_embeddings=False)
        image = SiglipImageProcessorPil(size={"height": 28, "width": 28})
        image.image_seq_length = 16
        return config, PaliGemmaProcessor(image_processor=image, tokenizer=tok)
    if family == "internvl":
        config = CONFIG_MAPPING[family](vision_config=dict(VISION, image_size=[28, 28], patch_size=[7, 7]), text_config=dict(text, model_type="qwen2"),
                                        image_token_id=tid("<IMG_CONTEXT>"), image_seq_length=4)
        for part, token in dict(start_image="<img>", end_image="</img>", context_image="<IMG_CONTEXT>").items():
            setattr(tok, part + "_token", token)
            setattr(tok, part + "_token_id", tid(token))
        tok.video_token = "<video>"
        image = GotOcr2ImageProcessorPil(size={"height": 28, "width": 28}, crop_to_patches=True, max_patches=6)
        return config, InternVLProcessor(image_processor=image, tokenizer=tok, image_seq_length=4, video_processor=InternVLVideoProcessor())
    scale = 2 if family == "idefics3" else 4
    config = CONFIG_MAPPING[family](vision_config=dict(VISION, image_size=32, patch_size=4), text_config=text, scale_factor=scale, image_token_id=tid("<image>"))
    keys = dict(size={"longest_edge": 96}, max_image_size={"longest_edge": 32})
    if family == "idefics3":
        return config, Idefics3Processor(image_processor=Idefics3ImageProcessorPil(**keys), tokenizer=tok, image_seq_len=64 // scale**2)
    return config, SmolVLMProcessor(image_processor=SmolVLMImageProcessorPil(**keys), tokenizer=tok, video_processor=SmolVLMVideoProcessor(), image_seq_len=64 // scale**2)


def fitted(family, tok, tid, text):
    """Families whose pictures have any size."""
    if family == "mistral3":
        config = CONFIG_MAPPING[family](vision_config=dict(VISION, model_type="pixtral", image_size=64, patch_size=4), text_config=dict(text, model_type="mistral", rms_norm_eps=1e-5),
                                        image_token_index=tid("[IMG]"), spatial_merge_size=2)
        image = PixtralImageProcessorPil(size={"longest_edge": 64}, patch_size={"height": 4, "width": 4})
        return config, PixtralProcessor(image_processor=image, tokenizer=tok, patch_size=4, spatial_merge_size=2)
    if family == "lighton_ocr":
        config = CONFIG_MAPPING[family](vision_config=dict(VISION, model_type="pixtral", image_size=64, patch_size=4), text_config=dict(text, model_type="qwen3", rms_norm_eps=1e-5),
                                        image_token_id=tid("<|image_pad|>"), spatial_merge_size=2, tie_word_embeddings=False)
        for part, token in dict(image="<|image_pad|>", image_break="<|vision_start|>", image_end="<|vision_end|>").items():
            setattr(tok, part + "_token", token)
            setattr(tok, part + "_token_id", tid(token))
        image = PixtralImageProcessorPil(size={"longest_edge": 64}, patch_size={"height": 4, "width": 4})  # as published: odd rows are dropped
        return config, LightOnOcrProcessor(image_processor=image, tokenizer=tok, patch_size=4, spatial_merge_size=2)
    if family == "pixtral":
        config = CONFIG_MAPPING["llava"](vision_config=dict(VISION, model_type="pixtral", image_size=64, patch_size=8), text_config=dict(text, model_type="mistral"),
                                         image_token_index=tid("[IMG]"), vision_feature_layer=-1, vision_feature_select_strategy="full")
        image = PixtralImageProcessorPil(size={"longest_edge": 64}, patch_size={"height": 8, "width": 8})
        return config, PixtralProcessor(image_processor=image, tokenizer=tok, patch_size=8)
    width, heads = text["hidden_size"], text["num_attention_heads"]
    sections = [2, 3, 3] if family.startswith("qwen3_vl") else [width // heads // 6] * 3
    hybrid = family.startswith("qwen3_5")
    if hybrid:
        sections = [4, 2, 2]
        text.update(head_dim=32, linear_num_value_heads=6, linear_num_key_heads=2, linear_value_head_dim=24, linear_key_head_dim=16)
        if family == "qwen3_5_moe":
            text.update(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, shared_expert_intermediate_size=48)
            text.pop("intermediate_size")
    elif family == "qwen3_vl_moe":
        text.update(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32)
    elif family != "qwen3_vl":
        text.pop("head_dim")
        sections[0] = width // heads // 2 - 2 * sections[1]
    text = dict(text, model_type=family + "_text", bos_token_id=0, eos_token_id=1,
                rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=sections))
    c = VISION["hidden_size"]
    vision = dict(depth=3, hidden_size=c, out_hidden_size=width, intermediate_size=40, num_heads=2, patch_size=4)
    mean = {}
    if family == "qwen2_vl":
        vision = dict(depth=3, embed_dim=c, hidden_size=width, num_heads=2, patch_size=4, mlp_ratio=2)
    elif family == "qwen2_5_vl":
        vision.update(window_size=16, fullatt_block_indexes=[1])
    else:
        vision.update(depth=4, num_position_embeddings=25, **({} if hybrid else dict(deepstack_visual_indexes=[0, 2])))
        text["rope_parameters"]["mrope_interleaved"] = True
        if hybrid:
            text["rope_parameters"]["partial_rotary_factor"] = 0.5
        mean = dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)
    config = CONFIG_MAPPING[family](vision_config=vision, text_config=text, image_token_id=tid("<|image_pad|>"), video_token_id=tid("<video>"),
                                    vision_start_token_id=tid("<|vision_start|>"), vision_end_token_id=tid("<|vision_end|>"))
    tok.image_token, tok.video_token, tok.vision_start_token, tok.vision_end_token = "<|image_pad|>", "<video>", "<|vision_start|>", "<|vision_end|>"
    kind = dict(qwen2_vl=Qwen2VLProcessor, qwen2_5_vl=Qwen2_5_VLProcessor).get(family, Qwen3VLProcessor)
    image = Qwen2VLImageProcessorPil(size={"shortest_edge": 256, "longest_edge": 4096}, patch_size=4, merge_size=2, **mean)
    video = Qwen3VLVideoProcessor() if family.startswith("qwen3") else Qwen2VLVideoProcessor()
    return config, kind(image_processor=image, tokenizer=tok, video_processor=video)


def picture(i, w, h):
    y, x = np.mgrid[0:h, 0:w]
    return Image.fromarray(np.stack([(3 * x + y + 40 * i) % 256, (5 * y + 2 * x) % 256, (x * y // 7) % 256], -1).astype(np.uint8))


def make(out, family):
    tok, tid = tokenizer(340)
    text = dict(TEXT, model_type="llama", vocab_size=len(tok), max_position_embeddings=2048, initializer_range=0.15)
    config, proc = (fixed if family in FIXED else fitted)(family, tok, tid, text)
    if TEMPLATES[family]:
        proc.chat_template = tok.chat_template = TEMPLATES[family]
    torch.manual_seed(7 if family == "qwen3_vl_moe" else 3)
    model = AutoModelForImageTextToText.from_config(config).eval().float()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" not in name and "lambda" not in name:
                p.add_(torch.randn_like(p) * 0.1)
            p.copy_(p.half().float())  # mm stores the language model in 16 bits
    folder = os.path.join(out, family)
    cases = []
    os.makedirs(folder, exist_ok=True)
    for i, sizes in enumerate(SIZES):
        files = [f"picture{i}-{j}.png" for j in range(len(sizes))]
        for j, (w, h) in enumerate(sizes):
            picture(j, w, h).save(os.path.join(folder, files[j]))
        pictures = [Image.open(os.path.join(folder, f)) for f in files]
        messages = [{"role": "user", "content": [{"type": "image"} for _ in sizes] + [{"type": "text", "text": QUESTION}]}]
        prompt = proc.apply_chat_template(messages, add_generation_prompt=True) if TEMPLATES[family] else "<image>" * len(files) + QUESTION
        nested = family in ("idefics3", "smolvlm", "gemma3")
        inputs = proc(text=[prompt], images=[pictures] if nested else pictures, return_tensors="pt", add_special_tokens=False)
        with torch.no_grad():
            got = model.generate(**inputs, max_new_tokens=32, do_sample=False, eos_token_id=None, pad_token_id=0, output_logits=True, return_dict_in_generate=True)
        n = inputs["input_ids"].shape[1]
        margins = [float(-l[0].topk(2).values.diff()) for l in got.logits]
        cases.append(dict(pictures=files, prompt=QUESTION, positions=n, ids=got.sequences[0, n:].tolist(), margin=min(margins)))
        print(family, sizes, "positions", n, "distinct ids", len(set(cases[-1]["ids"])), "least margin %.1e" % cases[-1]["margin"])
    (model.half() if SMALL else model).save_pretrained(folder)
    proc.save_pretrained(folder)
    if family.startswith("paligemma"):
        tokenizer(340)[0].save_pretrained(folder)  # without the 1,024 places that the processor adds
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(cases, f)
        f.write("\n")


def sound(i, seconds):
    """A chirp with pauses and noise, 16 bits at 16 kHz."""
    t = np.arange(int(seconds * 16000)) / 16000
    x = 0.4 * np.sin(2 * np.pi * (200 + 90 * i + 40 * t) * t) * (np.sin(3 * t + i) > -0.5) + 0.02 * np.random.default_rng(i).standard_normal(t.size)
    return (np.clip(x, -1, 1) * 32767).astype("<i2")


LENGTHS = [[1], [0.4], [30], [70], [12.34], [5, 31], [0.05, 2, 3.3]] if not SMALL else [[0.5], [2.1], [0.3, 0.7]]
HEARD = {
    "qwen2_audio": CHATML.replace("'image'", "'audio'").replace("MARKER", "<|audio_bos|><|AUDIO|><|audio_eos|>\n"),
    "voxtral": "{{ bos_token }}{% for m in messages %}[INST]" + TURN.replace("'image'", "'audio'").replace("MARKER", "[BEGIN_AUDIO][AUDIO]") + "[/INST]{% endfor %}",
}


def make_heard(out, family):
    tok, tid = tokenizer(340)
    seconds = 2 if SMALL else 30
    text = dict(TEXT, model_type="llama", vocab_size=len(tok), max_position_embeddings=4096, initializer_range=0.15)
    audio = dict(d_model=16, encoder_layers=3, encoder_attention_heads=2, encoder_ffn_dim=64, num_mel_bins=16, max_source_positions=50 * seconds)
    extractor = WhisperFeatureExtractor(feature_size=16, chunk_length=seconds)
    if family == "qwen2_audio":
        config = CONFIG_MAPPING[family](audio_config=audio, text_config=dict(text, model_type="qwen2"), audio_token_index=tid("<|AUDIO|>"))
        model = Qwen2AudioForConditionalGeneration(config)
    else:
        audio = dict(hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64, num_mel_bins=16, max_source_positions=50 * seconds)
        config = CONFIG_MAPPING[family](audio_config=audio, text_config=text, audio_token_id=tid("[AUDIO]"))
        model = VoxtralForConditionalGeneration(config)
    torch.manual_seed(4)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * (0.3 if p.ndim > 1 else 0.1) + ("norm" in name and "weight" in name))
            p.copy_(p.half().float())
    model = model.eval().float()
    tok.chat_template = HEARD[family]
    folder = os.path.join(out, family)
    os.makedirs(folder, exist_ok=True)
    cases = []
    for i, lengths in enumerate(LENGTHS):
        files, waves = [], []
        for j, n in enumerate(lengths):
            files.append(f"sound{i}-{j}.wav")
            x = sound(i + 2 * j, n)
            with wave.open(os.path.join(folder, files[-1]), "wb") as f:
                f.setparams((1, 2, 16000, 0, "NONE", ""))
                f.writeframes(x.tobytes())
            waves.append(x.astype(np.float32) / 32768)
        messages = [{"role": "user", "content": [{"type": "audio"} for _ in lengths] + [{"type": "text", "text": "What is said?"}]}]
        prompt = tok.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        if family == "qwen2_audio":
            proc = Qwen2AudioProcessor(feature_extractor=extractor, tokenizer=tok)
            inputs = proc(text=[prompt], audio=waves, sampling_rate=16000, return_tensors="pt", add_special_tokens=False)
        else:  # as VoxtralProcessor, whose tokenizer is another
            mels = []
            for x in waves:
                mel = extractor(x, sampling_rate=16000, padding=True, truncation=False, pad_to_multiple_of=16000 * seconds, return_tensors="pt")["input_features"]
                mels.append(mel.reshape(16, -1, 100 * seconds).transpose(0, 1))
                prompt = prompt.replace("[AUDIO]", "[X]" * (len(mels[-1]) * 50 * seconds // 4), 1)
            inputs = tok([prompt.replace("[X]", "[AUDIO]")], return_tensors="pt", add_special_tokens=False)
            inputs.pop("token_type_ids", None)
            inputs["input_features"] = torch.cat(mels)
        with torch.no_grad():
            got = model.generate(**inputs, max_new_tokens=32, do_sample=False, eos_token_id=None, pad_token_id=0, output_logits=True, return_dict_in_generate=True)
        n = inputs["input_ids"].shape[1]
        margins = [float(-l[0].topk(2).values.diff()) for l in got.logits]
        cases.append(dict(sounds=files, prompt="What is said?", positions=n, ids=got.sequences[0, n:].tolist(), margin=min(margins)))
        print(family, lengths, "positions", n, "distinct ids", len(set(cases[-1]["ids"])), "least margin %.1e" % cases[-1]["margin"])
    (model.half() if SMALL else model).save_pretrained(folder)
    tok.save_pretrained(folder)
    extractor.save_pretrained(folder)
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(cases, f)
        f.write("\n")


if __name__ == "__main__":
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    for name in args[1:] or list(TEMPLATES) + list(HEARD):
        (make_heard if name in HEARD else make)(args[0], name)
