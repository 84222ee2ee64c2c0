package arch

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/gguf"
)

// Keys of alternating updates.
const (
	keyActive   gguf.ArchKey = "altup.active_idx"
	keyStreams  gguf.ArchKey = "altup.num_inputs"
	keyPerLayer gguf.ArchKey = "embedding_length_per_layer_input"
	keyShared   gguf.ArchKey = "attention.shared_kv_layers"
	keyCutoffs  gguf.ArchKey = "activation_sparsity_scale"

	keyLocalKey   gguf.ArchKey = "attention.key_length_swa"
	keyLocalValue gguf.ArchKey = "attention.value_length_swa"
	keyLocalDims  gguf.ArchKey = "rope.dimension_count_swa"
)

// Altup describes the layers of Gemma 3n: several residual streams, of which a
// layer reads the first and updates all (arXiv 2301.13310), a residual of low rank
// next to attention (arXiv 2411.07501), and numbers of each token for each layer.
type Altup struct {
	Streams  int // K
	Rank     int // R, of the residual next to attention
	PerLayer int // P, numbers of a token for a layer
	// Shared is the number of last layers that read the keys and values of the last
	// layer before them with, or without, a window.
	Shared int `json:",omitempty"`
	// Cutoffs hold for each layer the standard deviations above the mean below which
	// gates are zero, or [Dense]; nil if all layers are dense.
	Cutoffs []float32 `json:",omitempty"`
}

// Dense is the cutoff of a layer that keeps all gates.
const Dense = -math.MaxFloat32

// Limits and defaults of alternating updates.
const (
	maxStreams  = 16
	usualRank   = 64
	usualLogits = 30 // the soft cap of logits
)

// KeysOf returns the layer whose keys and values layer i reads: itself, unless they
// are shared.
func (s Shape) KeysOf(i int) int {
	if s.Altup == nil || i < s.Layers-s.Altup.Shared {
		return i
	}
	for at := s.Layers - s.Altup.Shared - 1; at >= 0; at-- {
		if (s.WindowOf(at) > 0) == (s.WindowOf(i) > 0) {
			return at
		}
	}
	return i // which check refuses
}

// Cutoff returns the cutoff of layer i.
func (s Shape) Cutoff(i int) float32 {
	if s.Altup == nil || s.Altup.Cutoffs == nil {
		return Dense
	}
	return s.Altup.Cutoffs[i]
}

// checkAltup validates alternating updates.
func (s Shape) checkAltup() error {
	a := s.Altup
	switch {
	case a == nil && !s.Style().altup:
		return nil
	case a == nil || !s.Style().altup:
		return fmt.Errorf("architecture %s: residual streams are not described", s.Arch)
	}
	least, streams, rank := 1, maxStreams, maxWidth
	if s.Style().single {
		least, streams, rank = 0, 1, 0
	}
	if err := errors.Join(within("number of residual streams", a.Streams, 1+least, streams), within("rank of the residual next to attention", a.Rank, least, rank),
		within("numbers of a token for a layer", a.PerLayer, least, maxHidden/s.Layers), within("number of layers that share keys and values", a.Shared, 0, s.Layers-1)); err != nil {
		return err
	}
	if a.Cutoffs != nil && len(a.Cutoffs) != s.Layers {
		return fmt.Errorf("cutoffs of gates: got %d, want one for each of %d layers", len(a.Cutoffs), s.Layers)
	}
	for i, v := range a.Cutoffs {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("bad cutoff of gates of layer %d: %v", i, v)
		}
	}
	if s.Windowed != nil && len(s.Windowed) != s.Layers {
		return nil // as checkLayers reports
	}
	for i := s.Layers - a.Shared; i < s.Layers; i++ {
		if s.KeysOf(i) == i {
			return fmt.Errorf("layer %d shares keys and values, but no earlier layer has the same window", i)
		}
	}
	return nil
}

// single reads the numbers of each token for each layer, and the sizes of layers
// with a window, of an architecture with one residual stream.
func (r *reader) single(s *Shape) {
	s.Altup = &Altup{Streams: 1, PerLayer: r.countOr(keyPerLayer, 0), Shared: r.countOr(keyShared, 0)}
	dim, values := r.countOr(keyLocalKey, s.HeadDim), r.countOr(keyLocalValue, s.HeadDim)
	if dim != values {
		r.fail(fmt.Errorf("unsupported sizes: keys of %d and values of %d dimensions in layers with a window", dim, values))
	}
	turned := r.countOr(keyLocalDims, dim)
	if s.Local != nil {
		s.Local.Dims = turned
	}
	r.has(gguf.KeyHeadCountKV)
	r.has(gguf.KeyFeedForward)
	heads, err := r.f.PerLayer(gguf.KeyHeadCountKV.In(r.arch), s.Layers)
	hidden, errHidden := r.f.PerLayer(gguf.KeyFeedForward.In(r.arch), s.Layers)
	if err := errors.Join(err, errHidden); err != nil {
		r.fail(err)
		return
	}
	local := 0
	s.KVHeads, s.Hidden, s.WideShared = 0, int(hidden[0]), s.Altup.Shared > 0 && s.Altup.Shared < s.Layers && hidden[s.Layers-1] != hidden[0]
	for i, n := range heads {
		of := &s.KVHeads
		if s.WindowOf(i) > 0 {
			of = &local
		}
		if *of == 0 {
			*of = int(n)
		}
		if *of != int(n) || s.HiddenOf(i) != int(hidden[i]) {
			r.fail(fmt.Errorf("layer %d: got %d key/value heads and a feed forward length of %d, want %d and %d", i, n, hidden[i], *of, s.HiddenOf(i)))
			return
		}
	}
	if s.KVHeads == 0 {
		s.KVHeads = local
	}
	if local != 0 && (local != s.KVHeads || dim != s.HeadDim) {
		s.LocalHeadDim, s.LocalKVHeads = dim, local
	}
}

// single writes the same keys.
func (w *writer) single(s Shape) {
	w.put(keyPerLayer, uint32(s.Altup.PerLayer))
	w.put(keyShared, uint32(s.Altup.Shared))
	dim := uint32(cmp.Or(s.LocalHeadDim, s.HeadDim))
	w.put(keyLocalKey, dim)
	w.put(keyLocalValue, dim)
	if s.Local != nil {
		w.put(keyLocalDims, uint32(s.Local.Dims))
	}
}

// each returns a number of each layer, or of all if they are the same.
func (s Shape) each(of func(i int) int) any {
	all := make([]uint32, s.Layers)
	for i := range all {
		all[i] = uint32(of(i))
	}
	if len(slices.Compact(slices.Clone(all))) == 1 {
		return all[0]
	}
	return all
}

// altup reads alternating updates.
func (r *reader) altup(s *Shape) {
	if r.style.single {
		r.single(s)
		return
	}
	a := &Altup{Streams: r.countOr(keyStreams, 4), Rank: usualRank, PerLayer: r.count(keyPerLayer), Shared: r.countOr(keyShared, 0)}
	if n := r.countOr(keyActive, 0); n != 0 {
		r.fail(fmt.Errorf("key %s: got %d, want 0", keyActive.In(r.arch), n))
	}
	if t, ok := r.f.Tensor(Block(0) + "laurel_l.weight"); ok && len(t.Dims) == 2 {
		a.Rank = t.Dims[1]
	}
	if r.has(keyCutoffs) {
		v, err := gguf.Get[[]float32](r.f, keyCutoffs.In(r.arch))
		if err != nil {
			r.fail(err)
		}
		a.Cutoffs = make([]float32, len(v))
		for i, x := range v {
			if a.Cutoffs[i] = x; math.IsInf(float64(x), -1) {
				a.Cutoffs[i] = Dense
			}
		}
	}
	s.Altup = a
}

// altup writes the keys of alternating updates.
func (w *writer) altup(s Shape) {
	if s.Style().single {
		w.single(s)
		return
	}
	a := s.Altup
	w.put(keyActive, uint32(0))
	w.put(keyStreams, uint32(a.Streams))
	w.put(keyPerLayer, uint32(a.PerLayer))
	w.put(keyShared, uint32(a.Shared))
	if a.Cutoffs == nil {
		return
	}
	out := make([]float32, len(a.Cutoffs))
	for i, v := range a.Cutoffs {
		if out[i] = v; v == Dense {
			out[i] = float32(math.Inf(-1))
		}
	}
	w.put(keyCutoffs, out)
}

// altupGlobals lists the tensors of alternating updates outside the layers.
func (s Shape) altupGlobals(l *list) {
	a := s.Altup
	if a.PerLayer == 0 {
		return
	}
	if a.Streams > 1 {
		l.add("altup_proj.weight", false, s.Width, s.Width, a.Streams-1)
		l.add("altup_unembd_proj.weight", false, s.Width, s.Width, a.Streams-1)
	}
	l.add(PerLayerEmbedding, false, a.PerLayer*s.Layers, s.Vocab)
	l.add("per_layer_model_proj.weight", false, s.Width, a.PerLayer*s.Layers)
	l.add("per_layer_proj_norm.weight", false, a.PerLayer)
}

// altupLayer lists the tensors of alternating updates of a layer.
func (s Shape) altupLayer(l *list) {
	a := s.Altup
	if a.PerLayer > 0 {
		l.add("inp_gate.weight", false, s.Width, a.PerLayer)
		l.add("proj.weight", false, a.PerLayer, s.Width)
		l.add("post_norm.weight", false, s.Width)
	}
	if a.Streams == 1 {
		l.add("layer_output_scale.weight", true, 1)
		return
	}
	l.add("altup_correct_coef.weight", false, a.Streams, a.Streams)
	l.add("altup_correct_scale.weight", false, s.Width)
	l.add("altup_predict_coef.weight", false, a.Streams, a.Streams*a.Streams)
	l.add("altup_router.weight", false, s.Width, a.Streams)
	l.add("altup_router_norm.weight", false, s.Width)
	l.add("laurel_l.weight", false, s.Width, a.Rank)
	l.add("laurel_r.weight", false, a.Rank, s.Width)
	l.add("laurel_post_norm.weight", false, s.Width)
}
