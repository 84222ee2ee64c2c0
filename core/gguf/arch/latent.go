package arch

import (
	"errors"
	"fmt"
	"math"

	"mm-abi.org/mm/core/gguf"
)

// Keys of latent attention.
const (
	keyQueryRank   gguf.ArchKey = "attention.q_lora_rank"
	keyLatentRank  gguf.ArchKey = "attention.kv_lora_rank"
	keyLatentKey   gguf.ArchKey = "attention.key_length_mla"
	keyLatentValue gguf.ArchKey = "attention.value_length_mla"
)

// Latent is multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): the
// keys and values of all heads are products of one vector of a position, which
// is cached with one rotated key. Queries are multiplied by the matrices of the
// keys, and results by those of the values, so that [Shape.HeadDim] is R + P and
// all heads share one key head.
type Latent struct {
	// QueryRank is Q, the width of compressed queries. If zero, they are not
	// compressed.
	QueryRank int `json:",omitempty"`
	Rank      int // R, the width of the cached vector
	Key       int // K, dimensions of a head's key without the rotated ones, P
	Value     int // dimensions of a head's value
}

// check validates l within a shape.
func (l *Latent) check(s *Shape) error {
	faults := []error{
		within("rank of queries", l.QueryRank, 0, maxWidth), within("rank of keys and values", l.Rank, 1, maxDim),
		within("size of a key without rotation", l.Key, 1, maxDim), within("size of a value", l.Value, 1, maxDim),
	}
	if errors.Join(faults...) == nil && s.HeadDim != l.Rank+s.Rope.Dims {
		faults = append(faults, fmt.Errorf("bad head size: got %d, want the rank %d and %d rotated dimensions", s.HeadDim, l.Rank, s.Rope.Dims))
	}
	if s.KVHeads != 1 {
		faults = append(faults, fmt.Errorf("bad number of key/value heads: got %d, want 1, which all heads share", s.KVHeads))
	}
	return errors.Join(faults...)
}

// Latent reports whether an architecture compresses keys and values.
func (y Style) Latent() bool { return y.latent }

// ValueDim returns the numbers of a head's value in the cache: those of a key,
// or the latent vector.
func (s Shape) ValueDim() int {
	if s.Latent != nil {
		return s.Latent.Rank
	}
	return s.HeadDim
}

// latent reads the sizes of latent attention.
func (r *reader) latent(s *Shape) {
	key := r.countOr(keyLatentKey, 0)
	if key == 0 {
		r.fail(fmt.Errorf("key %s is missing: files of llama.cpp older than April 2025 hold keys and values in one matrix; convert the model again", keyLatentKey.In(r.arch)))
		return
	}
	l := &Latent{QueryRank: r.countOr(keyQueryRank, 0), Rank: r.count(keyLatentRank), Value: r.count(keyLatentValue)}
	l.Key = key - s.Rope.Dims
	s.Latent = l
	k, v := r.countOr(gguf.KeyKeyLength, l.Rank+s.Rope.Dims), r.countOr(gguf.KeyValueLength, l.Rank)
	if v != l.Rank {
		r.fail(fmt.Errorf("key %s: got %d, want the rank %d", gguf.KeyValueLength.In(r.arch), v, l.Rank))
	}
	s.HeadDim = k
}

// impliedScale returns the factor of q·k that files of latent attention do not
// state: it grows with yarn's factor, twice the logarithm that DeepSeek names
// mscale_all_dim.
func (s *Shape) impliedScale() float32 {
	scale := 1 / math.Sqrt(float64(s.Latent.Key+s.Rope.Dims))
	if s.Rope.Scaling == "yarn" && s.Rope.Factor > 1 {
		grow := float64(1)
		if s.Rope.YarnLog != 0 {
			grow = float64(s.Rope.YarnLog)
		}
		grow = 1 + 0.1*grow*math.Log(float64(s.Rope.Factor))
		scale *= grow * grow
	}
	return float32(scale)
}

// QueryScale returns the factor of q·k.
func (s Shape) QueryScale() float32 {
	switch {
	case s.AttentionScale != 0:
		return s.AttentionScale
	case s.Latent != nil:
		return s.impliedScale()
	case s.Style().Unscaled:
		return 1
	}
	return float32(1 / math.Sqrt(float64(s.HeadDim)))
}

// latent writes the keys of latent attention.
func (w *writer) latent(s Shape) {
	l := s.Latent
	w.put(keyQueryRank, uint32(l.QueryRank))
	w.put(keyLatentRank, uint32(l.Rank))
	w.put(keyLatentKey, uint32(l.Key+s.Rope.Dims))
	w.put(keyLatentValue, uint32(l.Value))
}

// latent lists the tensors of latent attention.
func (s Shape) latent(l *list) {
	a := s.Latent
	input := s.Width
	if a.QueryRank > 0 {
		l.add("attn_q_a.weight", false, s.Width, a.QueryRank)
		l.add("attn_q_a_norm.weight", false, a.QueryRank)
		input = a.QueryRank
		l.add("attn_q_b.weight", false, input, s.Heads*(a.Key+s.Rope.Dims))
	} else {
		l.add("attn_q.weight", false, input, s.Heads*(a.Key+s.Rope.Dims))
	}
	l.add("attn_kv_a_mqa.weight", false, s.Width, s.HeadDim)
	l.add("attn_kv_a_norm.weight", false, a.Rank)
	l.add("attn_k_b.weight", false, a.Key, a.Rank, s.Heads)
	l.add("attn_v_b.weight", false, a.Rank, a.Value, s.Heads)
	l.add("attn_output.weight", false, s.Heads*a.Value, s.Width)
}
