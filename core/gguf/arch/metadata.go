package arch

import (
	"cmp"
	"slices"

	"mm-abi.org/mm/core/gguf"
)

// Metadata returns the shape's GGUF keys in a fixed order, without the
// tokenizer's keys.
func (s Shape) Metadata() []gguf.KV {
	y := s.Style()
	w := writer{arch: s.Arch, kvs: []gguf.KV{{Key: gguf.KeyArchitecture, Value: s.Arch}}}
	w.put(gguf.KeyContextLength, uint32(s.Context))
	w.put(gguf.KeyEmbeddingLength, uint32(s.Width))
	w.put(gguf.KeyBlockCount, uint32(s.Layers+s.Further))
	w.put(gguf.KeyFeedForward, s.each(s.feeding))
	w.put(gguf.KeyHeadCount, uint32(s.Heads))
	w.keyHeads(s)
	if s.attends() {
		w.put(gguf.KeyKeyLength, uint32(s.HeadDim))
		w.put(gguf.KeyValueLength, uint32(s.ValueDim()))
	}
	if s.Mixer != nil {
		w.mixer(s)
	}
	if s.Latent != nil {
		w.latent(s)
	}
	if s.Altup != nil {
		w.altup(s)
	}
	if y.LayerNorm || y.halved { // llama.cpp does not load nemotron_h without it
		w.put(keyLayerNormEps, s.Epsilon)
	}
	if !y.LayerNorm {
		w.put(gguf.KeyRMSEpsilon, s.Epsilon)
	}
	w.put(gguf.KeyVocabSize, uint32(s.Vocab))
	if y.rotates() {
		w.rope(s)
	}
	if y.ALiBi {
		w.put(keyALiBi, float32(alibiBias))
	}
	w.layers(s)
	if s.Experts > 0 {
		w.experts(s)
	} else if s.Latent != nil { // llama.cpp does not load the file without them
		w.put(keyDenseLead, uint32(s.Layers))
		w.put(keyExpertHidden, uint32(s.Hidden))
		w.put(keySharedCount, uint32(0))
	}
	if y.parallel {
		w.put(keyParallel, s.Parallel)
	}
	if s.Activation != "" {
		w.put(keyActivation, string(s.Activation))
	}
	if s.Curves != nil {
		w.curves(s.Curves)
	}
	w.factor(keyEmbedScale, s.EmbeddingScale, 0)
	w.factor(keyResidualScale, s.ResidualScale, 0)
	w.factor(keyAttnScale, s.AttentionScale, 0)
	if y.divisor { // llama.cpp does not load the file without it
		w.put(keyLogitScale, cmp.Or(s.LogitDivisor, 1))
	}
	if y.factor {
		w.put(keyLogitScale, 1/cmp.Or(s.LogitDivisor, 1))
	}
	w.factor(keyCooling, s.Cooling, 0)
	w.factor(keyAttnCap, s.AttentionCap, 0)
	w.factor(keyLogitCap, s.LogitCap, y.logits)
	return w.kvs
}

// experts writes the keys of experts.
func (w *writer) experts(s Shape) {
	y := s.Style()
	w.put(keyExperts, uint32(s.Experts))
	w.put(keyExpertsUsed, uint32(s.ExpertsUsed))
	w.put(keyExpertHidden, uint32(s.ExpertHidden)) // llama.cpp does not load gpt-oss without it
	if s.ExpertSum {
		w.put(keyExpertNorm, false)
	} else if y.summed {
		w.put(keyExpertNorm, true)
	}
	switch {
	case y.counted:
		w.put(keyDenseLead, uint32(s.DenseLead))
		w.put(keySharedCount, uint32(s.SharedHidden/max(s.ExpertHidden, 1)))
		w.put(keyExpertScale, cmp.Or(s.ExpertScale, 1))
	case y.halved:
		w.factor(keyExpertScale, s.ExpertScale, 0)
		w.put(keySharedCount, uint32(1))
	case y.lead:
		w.put(keyDenseLead, uint32(s.DenseLead))
		w.factor(keyExpertScale, s.ExpertScale, 0)
	}
	if s.SharedHidden > 0 && !y.counted {
		w.put(keySharedHidden, uint32(s.SharedHidden))
	}
	if y.lead && y.sharing { // llama.cpp does not load the file without it
		w.put(keyExpertStep, uint32(1))
	}
	if y.groups {
		gate := uint32(gateSoftmax)
		if s.ExpertSigmoid {
			gate = gateSigmoid
		}
		w.put(keyExpertGate, gate)
	}
	if s.ExpertGroups > 0 {
		w.put(keyExpertGroups, uint32(s.ExpertGroups))
		w.put(keyGroupsUsed, uint32(s.GroupsUsed))
	}
}

// writer collects keys of an architecture.
type writer struct {
	arch string
	kvs  []gguf.KV
}

func (w *writer) put(k gguf.ArchKey, v any) {
	w.kvs = append(w.kvs, gguf.KV{Key: k.In(w.arch), Value: v})
}

// factor writes v unless it is the key's default.
func (w *writer) factor(k gguf.ArchKey, v, absent float32) {
	if v != absent {
		w.put(k, v)
	}
}

func (w *writer) rope(s Shape) {
	r := s.Rope
	w.put(gguf.KeyRopeDims, uint32(r.Dims))
	w.put(gguf.KeyRopeBase, r.Base)
	if r.Sections != [3]int{} {
		w.put(keySections, []int32{int32(r.Sections[0]), int32(r.Sections[1]), int32(r.Sections[2]), 0})
	}
	if s.Deep > 0 {
		w.put(keyDeep, uint32(s.Deep))
	}
	if r.Scaling == "" && r.Factor == 0 && r.AttentionFactor == 0 {
		return
	}
	w.put(gguf.KeyRopeScaling, cmp.Or(r.Scaling, "linear"))
	w.put(gguf.KeyRopeOriginal, uint32(r.OriginalContext))
	w.factor(gguf.KeyRopeFactor, r.Factor, 0)
	w.factor(gguf.KeyRopeAttention, r.AttentionFactor, 0)
	w.factor(gguf.KeyRopeExtFactor, r.ExtFactor, -1)
	switch {
	case s.Style().cooled && r.YarnAttention == 1:
		w.put(keyYarnLog, float32(1))
	case s.Latent != nil && r.YarnLog != 0:
		w.put(keyYarnLog, 0.1*r.YarnLog)
		w.factor(keyYarnAttention, r.YarnAttention, 1)
	default:
		w.factor(keyYarnAttention, r.YarnAttention, 0)
	}
	w.factor(gguf.KeyRopeBetaFast, r.BetaFast, 0)
	w.factor(gguf.KeyRopeBetaSlow, r.BetaSlow, 0)
}

// layers writes the per-layer keys.
func (w *writer) layers(s Shape) {
	y := s.Style()
	if s.Window > 0 {
		w.put(keyWindow, uint32(s.Window))
		if y.single || !slices.Equal(s.Windowed, lastOf(s.Layers, y.every, false)) { // llama.cpp does not load gemma4 without it
			w.put(keyPattern, s.Windowed)
		}
	}
	if y.switched {
		w.put(gguf.KeyRopeFinetuned, s.Unrotated == nil)
	}
	if s.Local != nil {
		w.put(keyRopeLocal, s.Local.Base)
	}
	if y.unrotate > 0 && !slices.Equal(s.Unrotated, lastOf(s.Layers, y.unrotate, true)) {
		rotated := make([]bool, s.Layers)
		for i := range rotated {
			rotated[i] = s.Rotated(i)
		}
		w.put(keyRopePattern, rotated)
	}
}
