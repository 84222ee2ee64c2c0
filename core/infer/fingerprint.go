package infer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"math"
)

// Fingerprint identifies the computation of the model: the SHA-256 of its shape
// and of every tensor in use. It is computed once, at about the speed of
// reading the file.
func (m *Model) Fingerprint() ([sha256.Size]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.fingerprinted {
		if m.closed {
			return m.fingerprint, ErrClosed
		}
		h := sha256.New()
		shape, err := json.Marshal(m.cfg)
		if err != nil {
			return m.fingerprint, fmt.Errorf("encoding the model's shape: %w", err)
		}
		h.Write(shape)
		m.hashWeights(h)
		h.Sum(m.fingerprint[:0])
		m.fingerprinted = true
	}
	return m.fingerprint, nil
}

// hashWeights adds the weights in a fixed order, each with its size. Packed
// matrices represent their source tensors.
func (m *Model) hashWeights(h hash.Hash) {
	linearWeights := func(l linear) {
		if l.weight == nil {
			return
		}
		fmt.Fprintf(h, "%v %d %d\n", l.weight.Type(), l.weight.Rows(), l.weight.Cols())
		l.weight.Hash(h)
		hashFloats(h, l.bias)
		for _, c := range l.changes {
			hashFloats(h, []float32{float32(c.Rank), c.Scale})
			hashFloats(h, c.A)
			hashFloats(h, c.B)
			hashFloats(h, c.rowScale)
		}
	}
	fmt.Fprintf(h, "%v %d\n", m.embedding.typ, len(m.embedding.data))
	h.Write(m.embedding.data)
	hashFloats(h, m.outputNorm.gain)
	linearWeights(m.output)
	hashFloats(h, m.ropeShort)
	hashFloats(h, m.ropeLong)
	for _, v := range [][]float32{m.positions, m.inputNorm.gain, m.inputNorm.bias, m.outputNorm.bias} {
		if v != nil {
			hashFloats(h, v)
		}
	}
	if m.altup != nil {
		fmt.Fprintf(h, "%v %d\n", m.altup.table.typ, len(m.altup.table.data))
		h.Write(m.altup.table.data)
		for _, l := range m.altup.matrices() {
			linearWeights(l)
		}
		hashFloats(h, m.altup.norm.gain)
	}
	for i := range m.layers {
		y := &m.layers[i]
		for _, l := range []linear{y.key, y.value, y.query, y.attentionOut, y.feed.gate, y.feed.up, y.feed.down, y.router} {
			linearWeights(l)
		}
		if y.latent != nil {
			for _, l := range append([]linear{y.latent.down}, append(y.latent.keys, y.latent.values...)...) {
				linearWeights(l)
			}
			hashFloats(h, y.latent.queryNorm.gain)
			hashFloats(h, y.latent.norm.gain)
		}
		if y.scale != nil {
			hashFloats(h, y.scale)
		}
		if y.altup != nil {
			for _, l := range y.altup.matrices() {
				linearWeights(l)
			}
			for _, v := range y.altup.vectors() {
				hashFloats(h, v)
			}
		}
		if x := y.mixer; x != nil {
			linearWeights(x.in)
			linearWeights(x.out)
			for _, l := range []linear{x.side, x.betas, x.steps, x.both} {
				linearWeights(l)
			}
			for _, v := range append([][]float32{x.bias, x.rate, x.skip, x.step, x.gain}, x.taps...) {
				hashFloats(h, v)
			}
		}
		for _, v := range [][]float32{y.routerBias, y.sharedGate, y.sinks, y.routerNorm.gain, y.expertNorm.gain, y.densePost.gain, y.expertPost.gain, y.expertScales} {
			if v != nil {
				hashFloats(h, v)
			}
		}
		for _, e := range y.experts {
			for _, l := range []linear{e.gate, e.up, e.down} {
				linearWeights(l)
			}
		}
		for _, v := range [][]float32{y.attentionNorm.gain, y.queryNorm.gain, y.keyNorm.gain, y.hiddenNorm.gain} {
			hashFloats(h, v)
		}
		for _, v := range [][]float32{y.attentionNorm.bias, y.hiddenNorm.bias, y.attentionPost.gain, y.attentionPost.bias, y.hiddenPost.gain, y.hiddenPost.bias} {
			if v != nil {
				hashFloats(h, v)
			}
		}
	}
}

func hashFloats(h hash.Hash, v []float32) {
	b := fmt.Appendf(nil, "%d\n", len(v))
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	h.Write(b)
}
