package infer

import (
	"cmp"

	"mm-abi.org/mm/core/gguf"
)

// Metadata is what describes the shape in a GGUF file, in a fixed order; the
// tokenizer's keys are not among it.
func (c Config) Metadata() []gguf.KV {
	key := func(k gguf.ArchKey, v any) gguf.KV { return gguf.KV{Key: k.In(c.Arch), Value: v} }
	kvs := []gguf.KV{
		{Key: gguf.KeyArchitecture, Value: c.Arch},
		key(gguf.KeyContextLength, uint32(c.Context)),
		key(gguf.KeyEmbeddingLength, uint32(c.Width)),
		key(gguf.KeyBlockCount, uint32(c.Layers)),
		key(gguf.KeyFeedForward, uint32(c.Hidden)),
		key(gguf.KeyHeadCount, uint32(c.Heads)),
		key(gguf.KeyHeadCountKV, uint32(c.KVHeads)),
		key(gguf.KeyKeyLength, uint32(c.HeadDim)),
		key(gguf.KeyValueLength, uint32(c.HeadDim)),
		key(gguf.KeyRMSEpsilon, c.Epsilon),
		key(gguf.KeyVocabSize, uint32(c.Vocab)),
		key(gguf.KeyRopeDims, uint32(c.Rope.Dims)),
		key(gguf.KeyRopeBase, c.Rope.Base),
	}
	add := func(k gguf.ArchKey, v float32, unless float32) {
		if v != unless {
			kvs = append(kvs, key(k, v))
		}
	}
	if r := c.Rope; r.Scaling != "" || r.Factor != 0 || r.AttentionFactor != 0 {
		kvs = append(kvs, key(gguf.KeyRopeScaling, cmp.Or(r.Scaling, "linear")), key(gguf.KeyRopeOriginal, uint32(r.OriginalContext)))
		add(gguf.KeyRopeFactor, r.Factor, 0)
		add(gguf.KeyRopeAttention, r.AttentionFactor, 0)
		add(gguf.KeyRopeExtFactor, r.ExtFactor, -1)
		add(gguf.KeyRopeBetaFast, r.BetaFast, 0)
		add(gguf.KeyRopeBetaSlow, r.BetaSlow, 0)
	}
	return kvs
}
