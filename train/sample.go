package train

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/llm"
)

// SampleOptions configure Sample. The zero value draws 100 tokens from the
// model's distribution.
type SampleOptions struct {
	Tokens      int     // maximum; 0 means 100
	Temperature float64 // 0 means 1; negative is greedy
	Seed        uint64
}

// Sample continues a prompt, one token at a time, until the tokenizer's EOS,
// opt.Tokens or the end of the context, and returns the continuation. The model
// must be packed.
func Sample(m *llm.Model[float32], tok *tokenizer.Tokenizer, prompt string, opt SampleOptions) (string, error) {
	if opt.Tokens == 0 {
		opt.Tokens = 100
	}
	if opt.Temperature == 0 {
		opt.Temperature = 1
	}
	ids := tok.Encode(prompt, tokenizer.Options{Add: true})
	if end := tok.Special().EOS; len(ids) > 0 && ids[len(ids)-1] == end {
		ids = ids[:len(ids)-1]
	} else if len(ids) == 0 && end != tokenizer.None {
		ids = []int32{end}
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("sampling: empty prompt")
	}
	d, text := m.NewDecoder(), tok.Decoder(tokenizer.DecodeOptions{Continued: true})
	var out string
	var logits []float32
	for _, id := range ids {
		var err error
		if logits, err = d.Feed(id); err != nil {
			return "", fmt.Errorf("sampling: %w", err)
		}
	}
	draw := splitMix(opt.Seed)
	for n := 0; n < opt.Tokens; n++ {
		id := pick(logits[:min(len(logits), tok.Size())], opt.Temperature, &draw)
		if tok.Ends(id) || m.Config.Mixer == llm.Attention && d.Len() == m.Config.Context {
			break
		}
		out += text.Next(id)
		var err error
		if logits, err = d.Feed(id); err != nil {
			return "", fmt.Errorf("sampling: %w", err)
		}
	}
	return out + text.Flush(), nil
}

// pick draws one token.
func pick(logits []float32, temperature float64, draw *splitMix) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	if temperature < 0 {
		return int32(best)
	}
	p := make([]float64, len(logits))
	var sum float64
	for i, v := range logits {
		p[i] = math.Exp(float64(v-logits[best]) / temperature)
		sum += p[i]
	}
	u := draw.next() * sum
	for i, v := range p {
		if u -= v; u < 0 {
			return int32(i)
		}
	}
	return int32(best)
}

// splitMix is Steele's generator, sufficient for samples.
type splitMix uint64

// next returns a uniform number in [0, 1).
func (s *splitMix) next() float64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}
