package arch

import (
	"errors"
	"fmt"
	"slices"

	"mm-abi.org/mm/core/gguf"
)

// Keys of layers with a state.
const (
	keyShortKernel gguf.ArchKey = "shortconv.l_cache"
	keyKernel      gguf.ArchKey = "ssm.conv_kernel"
	keyInner       gguf.ArchKey = "ssm.inner_size"
	keyState       gguf.ArchKey = "ssm.state_size"
	keyScanHeads   gguf.ArchKey = "ssm.time_step_rank"
	keyScanGroups  gguf.ArchKey = "ssm.group_count"
	keyRecurrent   gguf.ArchKey = "attention.recurrent_layers"
	keyInterval    gguf.ArchKey = "full_attention_interval"
)

// Mixer describes layers that keep a state of fixed size instead of the keys and
// values of all positions: a short convolution between two gates (LFM2) or, if
// Inner is not zero, a state space (Mamba-2, arXiv 2405.21060) or the gated delta
// rule (arXiv 2412.06464).
type Mixer struct {
	Kernel int // K, taps of the causal convolution
	Inner  int `json:",omitempty"` // I, width of the state space's input
	State  int `json:",omitempty"` // N, numbers of the state for each of them
	Heads  int `json:",omitempty"` // that decay at the same rate, I/Heads numbers each
	Groups int `json:",omitempty"` // of heads that share input and output vectors
	// Delta selects the delta rule: the input of a head replaces what its state
	// holds for the head's key.
	Delta bool `json:",omitempty"`
	// Tiled: head i has the key of group i mod Groups, not that of i / (Heads/Groups).
	Tiled bool `json:",omitempty"`
}

// Limits of a mixer.
const (
	maxKernel = 64
	maxState  = 1 << 12
	// MaxMemory limits the numbers of a session's state.
	MaxMemory = 1 << 30
)

// mixing is the kind of layers with a state of an architecture.
type mixing uint8

const (
	noMixer    mixing = iota
	shortMixer        // short convolutions, and layers of attention
	scanMixer         // state spaces, and layers of attention
	scanOnly          // state spaces without a feed-forward half
	deltaMixer        // delta rules, and layers of attention
	tiledMixer        // the same, whose heads take turns in sharing keys
)

func (m mixing) delta() bool { return m == deltaMixer || m == tiledMixer }

// Channels returns the width of the convolution in a model of width C.
func (m *Mixer) Channels(width int) int {
	if m.Inner == 0 {
		return width
	}
	return m.Inner + 2*m.Groups*m.State
}

// Memory returns the numbers of the state of a layer.
func (m *Mixer) Memory(width int) int { return (m.Kernel-1)*m.Channels(width) + m.Inner*m.State }

// Input returns the width of the product that the convolution reads.
func (m *Mixer) Input(width int) int {
	switch {
	case m.Inner == 0:
		return 3 * width
	case m.Delta:
		return m.Channels(width)
	}
	return m.Inner + m.Channels(width) + m.Heads
}

// Group returns the group of a head.
func (m *Mixer) Group(head int) int {
	if m.Tiled {
		return head % m.Groups
	}
	return head / (m.Heads / m.Groups)
}

// Recurs reports whether layer i has a state instead of keys and values.
func (s Shape) Recurs(i int) bool { return s.Recurrent != nil && s.Recurrent[i] }

// Feeds reports whether layer i is a feed-forward half alone.
func (s Shape) Feeds(i int) bool { return s.Feeding != nil && s.Feeding[i] }

// AttentionLayers returns the number of layers whose keys and values are not those of others.
func (s Shape) AttentionLayers() int {
	n := s.Layers
	for i := range s.Layers {
		if s.Recurs(i) || s.Feeds(i) || s.KeysOf(i) != i {
			n--
		}
	}
	return n
}

// attends reports whether the architecture has layers of attention.
func (s Shape) attends() bool { return s.Style().mixer != scanOnly }

// checkMixer validates the layers with a state.
func (s Shape) checkMixer() error {
	m := s.Mixer
	switch {
	case m == nil && s.Recurrent == nil && s.Style().mixer == noMixer:
		return nil
	case m == nil || s.Style().mixer == noMixer:
		return fmt.Errorf("architecture %s: layers with a state are not described", s.Arch)
	case len(s.Recurrent) != s.Layers:
		return fmt.Errorf("pattern of layers with a state: got %d, want %d", len(s.Recurrent), s.Layers)
	}
	if s.Feeding != nil && !s.Style().halved || s.Style().halved && len(s.Feeding) != s.Layers {
		return fmt.Errorf("architecture %s: pattern of %d layers of one half, want %d", s.Arch, len(s.Feeding), s.Layers)
	}
	for i := range s.Feeding {
		if s.Feeding[i] && s.Recurrent[i] {
			return fmt.Errorf("layer %d has a state and a feed-forward half", i)
		}
	}
	scans := s.Style().mixer != shortMixer
	faults := []error{within("kernel of the convolution", m.Kernel, 2, maxKernel)}
	if scans {
		faults = append(faults,
			within("width of the state space", m.Inner, 1, maxHidden), within("numbers of a state", m.State, 1, maxState),
			within("number of heads of the state space", m.Heads, 1, maxHeads), within("number of groups of the state space", m.Groups, 1, maxHeads))
	}
	switch err := errors.Join(faults...); {
	case err != nil:
		return err
	case scans && (m.Inner%m.Heads != 0 || m.Heads%m.Groups != 0):
		return fmt.Errorf("%d heads in %d groups cannot share a state space of width %d", m.Heads, m.Groups, m.Inner)
	case m.Memory(s.Width) > MaxMemory/max(s.Layers, 1):
		return fmt.Errorf("state of %d layers of %d numbers exceeds %d", s.Layers, m.Memory(s.Width), MaxMemory)
	}
	return nil
}

// mixer reads the layers with a state. heads are the key heads of each layer.
func (r *reader) mixer(s *Shape, heads []uint32) {
	kind := r.style.mixer
	if kind == noMixer {
		return
	}
	s.Recurrent = make([]bool, s.Layers)
	switch {
	case kind.delta() && r.has(keyRecurrent):
		r.has(keyInterval) // repeats the pattern
		all := r.pattern(keyRecurrent, s.Layers+s.Further)
		s.Recurrent = all[:min(s.Layers, len(all))]
	case kind.delta():
		s.Recurrent = lastOf(s.Layers, r.countOr(keyInterval, 4), false)
	default:
		for i := range s.Recurrent {
			s.Recurrent[i] = (kind == scanOnly || heads[i] == 0) && !s.Feeds(i)
		}
	}
	if kind == shortMixer {
		s.Mixer = &Mixer{Kernel: r.count(keyShortKernel)}
		return
	}
	s.Mixer = &Mixer{
		Kernel: r.count(keyKernel), Inner: r.count(keyInner), State: r.count(keyState), Heads: r.count(keyScanHeads), Groups: r.count(keyScanGroups),
		Delta: kind.delta(), Tiled: kind == tiledMixer,
	}
}

// halves reads the width of the layers that are a feed-forward half, which others
// have as 0.
func (r *reader) halves(s *Shape) {
	r.has(gguf.KeyFeedForward)
	all, err := r.f.PerLayer(gguf.KeyFeedForward.In(r.arch), s.Layers)
	if err != nil {
		r.fail(err)
		return
	}
	for _, key := range []gguf.ArchKey{gguf.KeyRopeDims, gguf.KeyRopeBase, gguf.KeyRopeOriginal, keySharedCount} { // without an effect
		r.has(key)
	}
	if other := r.float(keyLayerNormEps, s.Epsilon); other != s.Epsilon {
		r.fail(fmt.Errorf("key %s: got %v, but %s is %v", keyLayerNormEps.In(r.arch), other, gguf.KeyRMSEpsilon.In(r.arch), s.Epsilon))
	}
	s.Feeding = make([]bool, s.Layers)
	for i, n := range all {
		if s.Feeding[i] = n > 0; n == 0 {
			continue
		}
		if s.Hidden == 0 {
			s.Hidden = int(n)
		}
		if s.Hidden != int(n) {
			r.fail(fmt.Errorf("key %s: %d in one layer, but %d in layer %d: layers of different shapes are not supported", gguf.KeyFeedForward.In(r.arch), s.Hidden, n, i))
			return
		}
	}
	if s.Hidden == 0 { // of no layer
		s.Hidden = 1
	}
}

// keyHeads reads the key heads of each layer, which are 0 in layers with a state
// and the same in others.
func (r *reader) keyHeads(s *Shape) []uint32 {
	all, err := r.f.PerLayer(gguf.KeyHeadCountKV.In(r.arch), s.Layers)
	if r.has(gguf.KeyHeadCountKV); err != nil {
		r.fail(err)
		return make([]uint32, s.Layers)
	}
	for i, n := range all {
		switch {
		case n == 0:
		case s.KVHeads == 0:
			s.KVHeads = int(n)
		case s.KVHeads != int(n):
			r.fail(fmt.Errorf("key %s: %d in one layer, but %d in layer %d: layers of different shapes are not supported", gguf.KeyHeadCountKV.In(r.arch), s.KVHeads, n, i))
		}
	}
	if s.KVHeads == 0 { // without keys there are as many heads
		s.KVHeads = s.Heads
	}
	return all
}

// mixer writes the keys of layers with a state.
func (w *writer) mixer(s Shape) {
	m := s.Mixer
	if m.Inner == 0 {
		w.put(keyShortKernel, uint32(m.Kernel))
		return
	}
	w.put(keyKernel, uint32(m.Kernel))
	w.put(keyInner, uint32(m.Inner))
	w.put(keyState, uint32(m.State))
	w.put(keyScanHeads, uint32(m.Heads))
	w.put(keyScanGroups, uint32(m.Groups))
	if m.Delta {
		w.put(keyRecurrent, append(slices.Clone(s.Recurrent), make([]bool, s.Further)...))
		if s.Further > 0 {
			w.put(keyFurther, uint32(s.Further))
		}
	}
}

// keyHeads writes the key heads of all layers.
func (w *writer) keyHeads(s Shape) {
	if s.Recurrent == nil || !s.attends() || s.Style().mixer.delta() {
		w.put(gguf.KeyHeadCountKV, s.each(s.KVHeadsOf))
		return
	}
	heads := make([]uint32, s.Layers)
	for i := range heads {
		if !s.Recurs(i) && !s.Feeds(i) {
			heads[i] = uint32(s.KVHeads)
		}
	}
	w.put(gguf.KeyHeadCountKV, heads)
}

// mixer lists the tensors of a layer with a state.
func (s Shape) mixer(l *list) {
	m := s.Mixer
	if m.Inner == 0 {
		l.add("shortconv.conv.weight", false, m.Kernel, s.Width)
		l.add("shortconv.in_proj.weight", false, s.Width, 3*s.Width)
		l.add("shortconv.out_proj.weight", false, s.Width, s.Width)
		return
	}
	if m.Delta {
		l.add("attn_qkv.weight", false, s.Width, m.Channels(s.Width))
		l.add("attn_gate.weight", false, s.Width, m.Inner)
		if m.Tiled {
			l.add("ssm_beta.weight", false, s.Width, m.Heads)
			l.add("ssm_alpha.weight", false, s.Width, m.Heads)
		} else {
			l.add("ssm_ba.weight", false, s.Width, 2*m.Heads)
		}
		l.add("ssm_conv1d.weight", false, m.Kernel, m.Channels(s.Width))
		l.add("ssm_dt.bias", false, m.Heads)
		l.add("ssm_a", false, m.Heads)
		l.add("ssm_norm.weight", false, m.Inner/max(m.Heads, 1))
		l.add("ssm_out.weight", false, m.Inner, s.Width)
		return
	}
	l.add("ssm_in.weight", false, s.Width, m.Input(s.Width))
	l.add("ssm_conv1d.weight", false, m.Kernel, m.Channels(s.Width))
	l.add("ssm_conv1d.bias", true, m.Channels(s.Width))
	l.add("ssm_dt.bias", false, m.Heads)
	l.add("ssm_a", false, 1, m.Heads)
	l.add("ssm_d", false, 1, m.Heads)
	l.add("ssm_norm.weight", false, m.Inner/max(m.Groups, 1), m.Groups)
	l.add("ssm_out.weight", false, m.Inner, s.Width)
}
