package arch

import (
	"fmt"
	"strconv"
	"strings"
)

// Tensor is a required or an optional tensor.
type Tensor struct {
	Name string
	// Dims are in GGUF's order, the contiguous dimension first.
	Dims     []int
	Optional bool
}

// Names of tensors outside the layers.
const (
	TokenEmbedding = "token_embd.weight"
	Positions      = "position_embd.weight"
	// PerLayerEmbedding holds the numbers of each token for all layers.
	PerLayerEmbedding = "per_layer_token_embd.weight"
	OutputNorm        = "output_norm"
	EmbeddingNorm     = "token_embd_norm"
	Output            = "output.weight"
	OutputBias        = "output.bias"
	RopeFreqs         = "rope_freqs.weight"
	RopeShort         = "rope_factors_short.weight"
	RopeLong          = "rope_factors_long.weight"
)

// Names of tensors of experts in a layer.
const (
	GateUpExperts = "ffn_gate_up_exps.weight"
	RouterScale   = "ffn_gate_inp.scale"
	ExpertScales  = "ffn_down_exps.scale"
)

// Block returns the prefix of the names of layer i.
func Block(i int) string { return fmt.Sprintf("blk.%d.", i) }

// list collects tensors.
type list struct {
	prefix string
	has    func(string) bool
	bias   bool // norms have a bias
	out    []Tensor
}

func (l *list) add(name string, optional bool, dims ...int) {
	l.out = append(l.out, Tensor{Name: l.prefix + name, Dims: dims, Optional: optional})
}

// matrix adds weights and an optional bias.
func (l *list) matrix(name string, in, out int) {
	l.add(name+".weight", false, in, out)
	l.add(name+".bias", true, out)
}

func (l *list) norm(name string, n int) {
	l.add(name+".weight", false, n)
	if l.bias {
		l.add(name+".bias", true, n)
	}
}

// holds reports whether the file has a tensor.
func (l *list) holds(name string) bool { return l.has != nil && l.has(l.prefix+name) }

// Globals lists the tensors outside the layers.
func (s Shape) Globals() []Tensor {
	y := s.Style()
	l := list{bias: y.LayerNorm && !y.NoNormBias}
	l.add(TokenEmbedding, false, s.Width, s.Vocab)
	if y.Learned && s.attends() {
		l.add(Positions, false, s.Width, s.Context)
	}
	if y.EmbeddingNorm {
		l.norm(EmbeddingNorm, s.Width)
	}
	if s.Altup != nil {
		s.altupGlobals(&l)
	}
	l.norm(s.OutputNorm(), s.Width)
	l.add(Output, true, s.Width, s.Vocab)
	if y.output {
		l.add(OutputBias, true, s.Vocab)
	}
	if n := s.Rope.Dims / 2; !y.rotates() {
	} else if s.Rope.Scaling == LongRope {
		l.add(RopeShort, true, n)
		l.add(RopeLong, true, n)
	} else {
		l.add(RopeFreqs, true, n)
	}
	return l.out
}

// OutputNorm returns the name of the norm before the output.
func (s Shape) OutputNorm() string {
	if s.Style().mixer == shortMixer {
		return EmbeddingNorm
	}
	return OutputNorm
}

// Layer lists the tensors of layer i. If weights have two layouts, has reports
// the names in the file; if nil, it is the current layout.
func (s Shape) Layer(i int, has func(string) bool) []Tensor {
	y := s.Style()
	l := list{prefix: Block(i), has: has, bias: y.LayerNorm && !y.NoNormBias}
	dim := s.HeadDimOf(i)
	queries, keys := s.Heads*dim, s.KVHeadsOf(i)*dim
	if !y.NoPreNorm {
		l.norm("attn_norm", s.Width)
	}
	if s.Feeds(i) {
		s.feedForward(&l, i)
		return l.out
	}
	if s.Recurs(i) {
		s.mixer(&l)
		if s.attends() && !y.halved {
			if y.second {
				l.norm("post_attention_norm", s.Width)
			} else {
				l.norm("ffn_norm", s.Width)
			}
			s.feedForward(&l, i)
		}
		return l.out
	}
	switch {
	case s.Latent != nil:
		s.latent(&l)
	case l.holds("attn_qkv.weight") || y.FusedQKV && !l.holds("attn_q.weight"):
		l.matrix("attn_qkv", s.Width, queries+2*keys)
	default:
		if s.KeysOf(i) == i {
			l.matrix("attn_k", s.Width, keys)
			if y.single && s.WindowOf(i) == 0 { // values may be the keys
				l.add("attn_v.weight", true, s.Width, keys)
			} else {
				l.matrix("attn_v", s.Width, keys)
			}
		} else { // older files have them, and llama.cpp requires them
			l.add("attn_k.weight", true, s.Width, keys)
			l.add("attn_v.weight", true, s.Width, keys)
		}
		if y.QueryGates {
			l.matrix("attn_q", s.Width, 2*queries)
		} else {
			l.matrix("attn_q", s.Width, queries)
		}
	}
	switch y.HeadNorm {
	case SharedNorm:
		l.add("attn_q_norm.weight", y.loosely, dim)
		l.add("attn_k_norm.weight", y.loosely || s.KeysOf(i) != i, dim)
	case SeparateNorm:
		l.add("attn_q_norm.weight", true, s.HeadDim, s.Heads)
		l.add("attn_k_norm.weight", true, s.HeadDim, s.KVHeads)
	case WholeHeadNorm:
		l.add("attn_q_norm.weight", false, queries)
		l.add("attn_k_norm.weight", false, keys)
	}
	if y.two {
		l.add("attn_norm_2.weight", true, s.Width)
		l.add("attn_norm_2.bias", true, s.Width)
	}
	if s.Latent == nil {
		l.matrix("attn_output", queries, s.Width)
	}
	if y.halved {
		return l.out
	}
	if y.Sinks {
		l.add("attn_sinks.weight", false, s.Heads)
	}
	if y.PostNorm || y.second {
		l.norm("post_attention_norm", s.Width)
	}
	if !y.NoPreNorm && !y.second && !(s.Parallel && y.SharedInput) {
		l.norm("ffn_norm", s.Width)
	}
	s.feedForward(&l, i)
	if y.PostNorm {
		l.norm("post_ffw_norm", s.Width)
	}
	if s.Altup != nil {
		s.altupLayer(&l)
	}
	return l.out
}

// feedForward lists the tensors of the feed-forward half.
func (s Shape) feedForward(l *list, i int) {
	y := s.Style()
	switch {
	case s.HasExperts(i) && y.Joined:
		s.dense(l, i)
		s.joined(l)
	case s.HasExperts(i) && l.holds("ffn_gate.0.weight"):
		l.add("ffn_gate_inp.weight", false, s.Width, s.Experts)
		for e := range s.Experts {
			l.add(fmt.Sprintf("ffn_gate.%d.weight", e), false, s.Width, s.ExpertHidden)
			l.add(fmt.Sprintf("ffn_up.%d.weight", e), false, s.Width, s.ExpertHidden)
			l.add(fmt.Sprintf("ffn_down.%d.weight", e), false, s.ExpertHidden, s.Width)
		}
	case s.HasExperts(i):
		l.add("ffn_gate_inp.weight", false, s.Width, s.Experts)
		if y.groups {
			l.add("exp_probs_b.bias", true, s.Experts)
		}
		s.stacked(l)
		s.besideExperts(l)
	case !y.Gated:
		l.matrix("ffn_up", s.Width, s.Hidden)
		l.matrix("ffn_down", s.Hidden, s.Width)
	case y.FusedGate && !l.holds("ffn_gate.weight"):
		l.matrix("ffn_up", s.Width, 2*s.Hidden)
		l.matrix("ffn_down", s.Hidden, s.Width)
	default:
		s.dense(l, i)
	}
}

// dense lists a feed-forward layer with a gate.
func (s Shape) dense(l *list, i int) {
	l.matrix("ffn_gate", s.Width, s.HiddenOf(i))
	l.matrix("ffn_up", s.Width, s.HiddenOf(i))
	l.matrix("ffn_down", s.HiddenOf(i), s.Width)
}

// stacked lists the matrices of all experts, whose gates may be in one tensor with
// the other products.
func (s Shape) stacked(l *list) {
	y := s.Style()
	if !y.Gated {
		l.add("ffn_up_exps.weight", false, s.Width, s.ExpertHidden, s.Experts)
	} else if !y.ExpertBias && (l.holds(GateUpExperts) || y.Joined && !l.holds("ffn_gate_exps.weight")) {
		l.add(GateUpExperts, false, s.Width, 2*s.ExpertHidden, s.Experts)
	} else {
		l.add("ffn_gate_exps.weight", false, s.Width, s.ExpertHidden, s.Experts)
		l.add("ffn_up_exps.weight", false, s.Width, s.ExpertHidden, s.Experts)
	}
	l.add("ffn_down_exps.weight", false, s.ExpertHidden, s.Width, s.Experts)
}

// joined lists the router, the experts, and the norms of a layer with both halves.
func (s Shape) joined(l *list) {
	l.add("ffn_gate_inp.weight", false, s.Width, s.Experts)
	l.add(RouterScale, false, s.Width)
	s.stacked(l)
	l.add(ExpertScales, true, s.Experts)
	for _, name := range []string{"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"} {
		l.norm(name, s.Width)
	}
}

// HasExperts reports whether layer i chooses from experts.
func (s Shape) HasExperts(i int) bool { return s.Experts > 0 && i >= s.DenseLead }

// besideExperts lists the biases of experts and the shared expert.
func (s Shape) besideExperts(l *list) {
	y := s.Style()
	if y.ExpertBias {
		l.add("ffn_gate_inp.bias", false, s.Experts)
		l.add("ffn_gate_exps.bias", false, s.ExpertHidden, s.Experts)
		l.add("ffn_up_exps.bias", false, s.ExpertHidden, s.Experts)
		l.add("ffn_down_exps.bias", false, s.Width, s.Experts)
	}
	if s.SharedHidden == 0 {
		return
	}
	if y.SharedGate {
		l.add("ffn_gate_inp_shexp.weight", false, s.Width)
	}
	if y.Gated {
		l.add("ffn_gate_shexp.weight", false, s.Width, s.SharedHidden)
	}
	l.add("ffn_up_shexp.weight", false, s.Width, s.SharedHidden)
	l.add("ffn_down_shexp.weight", false, s.SharedHidden, s.Width)
}

// CheckTensors compares the names in a file with the shape: every required
// tensor is present, and none is unused. It returns all errors, up to a limit.
func (s Shape) CheckTensors(names []string) error {
	have := make(map[string]bool, len(names))
	for _, n := range names {
		have[n] = true
	}
	var faults faults
	account := func(tensors []Tensor) {
		for _, t := range tensors {
			if !have[t.Name] && !t.Optional {
				faults.add("tensor %s is missing", t.Name)
			}
			delete(have, t.Name)
		}
	}
	has := func(n string) bool { return have[n] }
	account(s.Globals())
	for i := range s.Layers {
		if account(s.Layer(i, has)); faults.full() {
			break
		}
	}
	for _, n := range names {
		if have[n] && !faults.full() && !s.beyond(n) {
			faults.add("unexpected tensor %s for architecture %s: ignoring it would change the result", n, s.Arch)
		}
	}
	return faults.join()
}

// beyond reports whether a tensor belongs to a layer that proposes tokens.
func (s Shape) beyond(name string) bool {
	number, _, layer := strings.Cut(strings.TrimPrefix(name, "blk."), ".")
	i, err := strconv.Atoi(number)
	return layer && err == nil && strings.HasPrefix(name, "blk.") && i >= s.Layers && i < s.Layers+s.Further
}

// same reports whether dims equals want, ignoring trailing ones.
func same(dims, want []int) bool {
	for len(dims) > len(want) && dims[len(dims)-1] == 1 {
		dims = dims[:len(dims)-1]
	}
	if len(dims) != len(want) {
		return false
	}
	for i := range dims {
		if dims[i] != want[i] {
			return false
		}
	}
	return true
}

// Fits returns an error with both shapes unless dims are t's.
func (t Tensor) Fits(dims []int) error {
	if same(dims, t.Dims) {
		return nil
	}
	return fmt.Errorf("shape mismatch for tensor %s: got %v, want %v", t.Name, dims, t.Dims)
}

// Part returns the name without the layer's prefix.
func (t Tensor) Part() string {
	if strings.HasPrefix(t.Name, "blk.") {
		return t.Name[strings.IndexByte(t.Name[4:], '.')+5:]
	}
	return t.Name
}
