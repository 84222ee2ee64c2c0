#!/usr/bin/env python3
"""Write tiny encoders of random weights of each family, with the outputs of
transformers 5.23: NAME.safetensors, and cases.json with their config.json and cases.
Arguments are the names of models: the others are kept.
"""
import json, os, sys, tempfile
import torch, transformers as t
from safetensors.torch import load_file, save_file

OUT = os.path.dirname(os.path.abspath(__file__))
torch.manual_seed(1)
small = dict(vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12, max_position_embeddings=24)
rob = small | dict(max_position_embeddings=26, pad_token_id=1, type_vocab_size=1)
modern = small | dict(num_hidden_layers=4, max_position_embeddings=40, local_attention=6, global_attn_every_n_layers=3, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
models = {
    "bert": t.BertModel(t.BertConfig(**small)),
    "bert-tanh": t.BertModel(t.BertConfig(**small | dict(hidden_act="gelu_new", type_vocab_size=1))),
    "roberta": t.RobertaModel(t.RobertaConfig(**rob)),
    "xlm-roberta": t.XLMRobertaModel(t.XLMRobertaConfig(**rob)),
    "mpnet": t.MPNetModel(t.MPNetConfig(**rob | dict(relative_attention_num_buckets=32))),
    "distilbert": t.DistilBertModel(t.DistilBertConfig(vocab_size=30, dim=8, n_layers=2, n_heads=2, hidden_dim=12, max_position_embeddings=24)),
    "electra": t.ElectraModel(t.ElectraConfig(**small | dict(embedding_size=8))),
    "modernbert": t.ModernBertModel(t.ModernBertConfig(**modern)),
    "rank-bert": t.BertForSequenceClassification(t.BertConfig(**small | dict(num_labels=1))),
    "rank-xlm-roberta": t.XLMRobertaForSequenceClassification(t.XLMRobertaConfig(**rob | dict(num_labels=1))),
    "class-distilbert": t.DistilBertForSequenceClassification(t.DistilBertConfig(vocab_size=30, dim=8, n_layers=2, n_heads=2, hidden_dim=12, max_position_embeddings=24, num_labels=3)),
    "class-electra": t.ElectraForSequenceClassification(t.ElectraConfig(**small | dict(embedding_size=8, num_labels=3))),
    "class-mpnet": t.MPNetForSequenceClassification(t.MPNetConfig(**rob | dict(relative_attention_num_buckets=32, num_labels=3))),
    "nomic": t.NomicBertModel(t.NomicBertConfig(**small | dict(rope_parameters={"rope_type": "default", "rope_theta": 1000.0}))),
    "gte": t.GteModel(t.GteConfig(**small | dict(type_vocab_size=1, pad_token_id=0, rope_parameters={"rope_type": "default", "rope_theta": 20000.0}))),
    "rank-gte": t.GteForSequenceClassification(t.GteConfig(**small | dict(type_vocab_size=0, pad_token_id=0, num_labels=1))),
    "class-modernbert": t.ModernBertForSequenceClassification(t.ModernBertConfig(**modern | dict(num_labels=3, classifier_pooling="mean"))),
}
LENGTHS = [14, 9, 3, 1]
out = {}
if sys.argv[1:]:
    out = json.load(open(os.path.join(OUT, "cases.json")))
    models = {name: models[name] for name in sys.argv[1:]}
for name, m in models.items():
    for p in m.parameters():
        torch.nn.init.normal_(p, std=0.4)
    m = m.eval()
    pad = m.config.pad_token_id or 0
    ids = torch.full((len(LENGTHS), max(LENGTHS)), pad)
    mask = torch.zeros_like(ids)
    types = torch.zeros_like(ids)
    for i, n in enumerate(LENGTHS):
        ids[i, :n] = torch.randint(5, 30, (n,))
        mask[i, :n] = 1
        types[i, n // 2:n] = 1
    two = name == "rank-bert" or name == "class-electra"
    kw = dict(token_type_ids=types) if two else {}
    with torch.no_grad():
        y = m(input_ids=ids, attention_mask=mask, **kw)
    case = {"ids": ids.tolist(), "mask": mask.tolist(), "config": json.loads(m.config.to_json_string(use_diff=False))}
    case["config"]["architectures"] = [type(m).__name__]
    if two:
        case["types"] = types.tolist()
    if hasattr(y, "logits"):
        s = y.logits
        case["scores"] = (torch.sigmoid(s) if s.shape[1] == 1 else s).tolist()
    else:
        h, w = y.last_hidden_state, mask[:, :, None].float()
        order = torch.arange(1, h.shape[1] + 1)[None, :, None] * w
        case["pooled"] = {
            "cls": h[:, 0].tolist(), "mean": ((h * w).sum(1) / w.sum(1)).tolist(), "max": h.masked_fill(w == 0, -1e9).max(1).values.tolist(),
            "mean_sqrt": ((h * w).sum(1) / w.sum(1).sqrt()).tolist(), "weighted": ((h * order).sum(1) / order.sum(1)).tolist(),
            "last": torch.stack([h[i, n - 1] for i, n in enumerate(LENGTHS)]).tolist(),
        }
    out[name] = case
    state = m.state_dict()
    if "nomic" in name or "gte" in name:  # under the names of files
        with tempfile.TemporaryDirectory() as folder:
            m.save_pretrained(folder)
            state = load_file(os.path.join(folder, "model.safetensors"))
    save_file({k: v.contiguous() for k, v in state.items() if v.is_floating_point()}, os.path.join(OUT, name + ".safetensors"))
keep = {"model_type", "architectures", "vocab_size", "max_position_embeddings", "hidden_size", "dim", "embedding_size", "num_attention_heads", "n_heads", "num_hidden_layers", "n_layers", "intermediate_size", "hidden_dim", "hidden_act", "activation", "layer_norm_eps", "type_vocab_size", "pad_token_id", "id2label", "relative_attention_num_buckets", "norm_eps", "hidden_activation", "global_attn_every_n_layers", "local_attention", "classifier_pooling", "layer_types", "rope_parameters", "global_rope_theta", "local_rope_theta"}
for c in out.values():
    c["config"] = {k: v for k, v in c["config"].items() if k in keep}
text = json.dumps(out)
with open(os.path.join(OUT, "cases.json"), "w") as f:
    f.write(json.dumps(json.loads(text, parse_float=lambda x: round(float(x), 6) if abs(float(x)) > 1e-3 else float(x)), separators=(",", ":")) + "\n")
