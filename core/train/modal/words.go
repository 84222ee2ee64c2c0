package modal

import (
	"maps"
	"slices"

	"mm-abi.org/mm/core/tokenizer"
)

// words are the core's own embeddings of signs: of a letter or a digit that of
// its token, of a word the mean of its tokens' behind a space, as an answer says
// it. size is the mean square of their lengths.
type words struct {
	of   map[string][]float32 // [d_model]
	size float64
}

// newWords looks up the signs of the media that come in.
func (p *Perception) newWords() words {
	w := words{of: map[string][]float32{}}
	table := p.model.Tensors()[0]
	for _, t := range p.model.Tensors() {
		if t.Name == "token_embd.weight" {
			table = t
		}
	}
	C := p.model.Config.Dim
	for _, s := range p.senses {
		for _, sign := range signsOf(s.modality).list {
			text := sign
			if len(sign) > 1 {
				text = " " + sign
			}
			ids := p.tok.Encode(text, tokenizer.Options{})
			if sign == "" || len(ids) == 0 {
				continue
			}
			e := make([]float32, C)
			for _, id := range ids {
				for c, v := range table.Data[int(id)*C : (int(id)+1)*C] {
					e[c] += v / float32(len(ids))
				}
			}
			w.of[sign] = e
		}
	}
	for _, sign := range slices.Sorted(maps.Keys(w.of)) {
		for _, v := range w.of[sign] {
			w.size += float64(v) * float64(v) / float64(len(w.of))
		}
	}
	return w
}

// pull adds to the gradients of an item's vectors, [rows, C], those of
// weight/2·|y − e|²/size, where a vector y stands at the place of a sign whose
// embedding is e.
func (w words) pull(signs []string, row func(int) []float32, grads []float32, C int, weight float64) {
	by := float32(weight / w.size)
	for r, sign := range signs {
		e := w.of[sign]
		if e == nil {
			continue
		}
		y, g := row(r), grads[r*C:(r+1)*C]
		for c := range g {
			g[c] += by * (y[c] - e[c])
		}
	}
}
