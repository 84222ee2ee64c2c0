package llm

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Init is how the weights of a new model are drawn. The zero value is the
// recommended start.
type Init struct {
	Seed uint64 `json:"seed,omitempty"`
	// EmbedStd is the standard deviation of the embedding; 0 means 1/√C, or less
	// where the head is tied, so that the first loss is about ln V.
	EmbedStd float64 `json:"embed_std,omitempty"`
	// Residual is how the matrices that write to the residual stream start:
	// "zero" (the default: every block starts as the identity), "scaled" (the
	// others' deviation over √(2L)) or "plain" (as the others).
	Residual string `json:"residual,omitempty"`
	// Gain multiplies the deviation of all other matrices; 0 means 1.
	// The deviation is √(2/(in+out)), Glorot's.
	Gain float64 `json:"gain,omitempty"`
}

// Validate names an unknown residual start or a negative size.
func (i Init) Validate() error {
	switch i.Residual {
	case "", "zero", "scaled", "plain":
	default:
		return fmt.Errorf("init residual %q is none of zero, scaled, plain", i.Residual)
	}
	if !(i.EmbedStd >= 0) || !(i.Gain >= 0) {
		return fmt.Errorf("init embed_std %v and gain %v must not be negative", i.EmbedStd, i.Gain)
	}
	return nil
}

// Init draws every weight anew: the same bits for the same seed and shape.
func (m *Model[F]) Init(opt Init) error {
	if err := opt.Validate(); err != nil {
		return err
	}
	if opt.EmbedStd == 0 {
		opt.EmbedStd = m.Config.embedStd()
	}
	if opt.Gain == 0 {
		opt.Gain = 1
	}
	r := nn.NewRandom(opt.Seed)
	for _, t := range m.Tensors() {
		m.initTensor(t, opt, r)
	}
	m.Stale()
	return nil
}

// embedStd is the deviation of the embedding: 1/√C, and where the head is tied
// to it at most ln V/(2C), so that a run starts near the loss of a uniform
// guess, ln V. What leaves blocks that are nearly the identity is the token's
// own row of the embedding, brought to the length √C by the norm: the head gives
// the token that is there already a logit of √C·‖row‖ = C·std, the others about
// none. At 1/√C and C = 256 that logit is 16, and so is the loss; here it is
// ln √V, which costs ln(1 + 1/√V).
func (c Config) embedStd() float64 {
	std := invSqrt(c.Dim)
	if c.Tied {
		std = min(std, math.Log(float64(c.Vocab))/float64(2*c.Dim))
	}
	return std
}

func (m *Model[F]) initTensor(t *Tensor[F], opt Init, r *nn.Random) {
	kind := blockKind(t)
	switch {
	case kind == "time_mix_decay":
		// Channels forget at rates from slow to quick: e^(-e^decay) from about
		// 0.997 down to 0.37, over the channels of each head.
		for i := range t.Data {
			d := t.Shape[1]
			t.Data[i] = F(-6 + 6*float64(i%d)/float64(max(d-1, 1)))
		}
	case kind == "time_mix_lerp_r" || kind == "time_mix_lerp_k" || kind == "time_mix_lerp_v" || kind == "time_mix_first":
		fill(t.Data, 0.5)
	case !t.Matrix():
		fill(t.Data, 1)
	case t == m.embed:
		nn.FillNormal(t.Data, r, opt.EmbedStd)
	default:
		std := opt.Gain * math.Sqrt(2/float64(t.Shape[0]+t.Shape[1]))
		if kind == "attn_output" || kind == "ffn_down" || kind == "time_mix_output" {
			switch opt.Residual {
			case "", "zero":
				std = 0
			case "scaled":
				std *= invSqrt(2 * m.Config.Layers)
			}
		}
		nn.FillNormal(t.Data, r, std)
	}
}

func fill[F tensor.Float](x []F, v F) {
	for i := range x {
		x[i] = v
	}
}

func invSqrt(n int) float64 { return 1 / math.Sqrt(float64(n)) }
