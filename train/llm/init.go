package llm

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Init configures the initial weights of a model. The zero value is the
// recommended start.
type Init struct {
	Seed uint64 `json:"seed,omitempty"`
	// EmbedStd is the standard deviation of the embedding; 0 means 1/√C, or
	// less with a tied head, so that the first loss is about ln V.
	EmbedStd float64 `json:"embed_std,omitempty"`
	// Residual is the start of the matrices that write to the residual stream:
	// "zero" (the default: every block starts as the identity), "scaled" (the
	// deviation of the others over √(2L)) or "plain" (as the others).
	Residual string `json:"residual,omitempty"`
	// Gain multiplies the deviation of all other matrices; 0 means 1.
	// The deviation is √(2/(in+out)), Glorot's.
	Gain float64 `json:"gain,omitempty"`
}

// Validate reports an unknown residual start or a negative size.
func (i Init) Validate() error {
	switch i.Residual {
	case "", "zero", "scaled", "plain":
	default:
		return fmt.Errorf("unknown init residual %q, want zero, scaled or plain", i.Residual)
	}
	if !(i.EmbedStd >= 0) || !(i.Gain >= 0) {
		return fmt.Errorf("init embed_std %v and gain %v must not be negative", i.EmbedStd, i.Gain)
	}
	return nil
}

// Init draws every weight: the same bits for the same seed and shape.
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

// embedStd returns the deviation of the embedding: 1/√C and, with a tied head,
// at most ln V/(2C), so that a run starts near the loss of a uniform guess, ln
// V. The output of blocks close to the identity is the token's embedding row,
// normed to the length √C. The head then predicts the current token with a
// logit of √C·‖row‖ = C·std, the others with about 0. At 1/√C and C = 256 that
// logit is 16, and so is the loss; here it is ln √V, which costs ln(1 + 1/√V).
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
		// Channels decay at rates from slow to fast: e^(-e^decay) from about
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
