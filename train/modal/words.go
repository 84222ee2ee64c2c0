package modal

import (
	"maps"
	"math"
	"slices"
	"sync"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/nn"
)

// words holds the core's embeddings of signs: of a letter or a digit the
// embedding of its token, of a word the mean of its tokens with a leading
// space, as in an answer. size is the mean squared length of the signs'
// embeddings.
type words struct {
	of      map[string][]float32 // of signs, [d_model]
	size    float64
	owners  bool
	columns [scene.Row][]float32 // distinguish the places of a row

	embed func(text string) []float32
	mu    sync.Mutex
	texts map[string][]float32 // of owners
}

// newWords looks up the signs of the recipe's media.
func (p *Perception) newWords() *words {
	C := p.model.Config.Dim
	w := &words{of: map[string][]float32{}, owners: p.recipe.Data.Owners, texts: map[string][]float32{}, embed: p.embed}
	for _, s := range p.senses {
		for _, sign := range signsOf(s.modality).list {
			text := sign
			if len(sign) > 1 {
				text = " " + sign
			}
			if sign != "" {
				w.of[sign] = w.embed(text)
			}
		}
	}
	for _, sign := range slices.Sorted(maps.Keys(w.of)) {
		for _, v := range w.of[sign] {
			w.size += float64(v) * float64(v) / float64(len(w.of))
		}
	}
	r := nn.NewRandom(1)
	for i := range w.columns {
		w.columns[i] = make([]float32, C)
		nn.FillNormal(w.columns[i], r, math.Sqrt(w.size/float64(C))/2)
	}
	return w
}

// embed returns the mean of the core's embeddings of a text's tokens.
func (p *Perception) embed(text string) []float32 {
	table, C := p.model.Tensor("token_embd.weight"), p.model.Config.Dim
	ids := p.tok.Encode(text, tokenizer.Options{})
	e := make([]float32, C)
	for _, id := range ids {
		for c, v := range table.Data[int(id)*C : (int(id)+1)*C] {
			e[c] += v / float32(len(ids))
		}
	}
	return e
}

// targets returns the targets of an example's vectors, nil for an empty
// position: the embedding of the sign and, if owners is set, that of the sign's
// owner and a vector of its place in the row.
func (w *words) targets(e Example) [][]float32 {
	signs := readingOf(e)
	out := make([][]float32, len(signs))
	for i, sign := range signs {
		out[i] = w.of[sign]
		if !w.owners || out[i] == nil || e.Scene == nil {
			continue
		}
		owner := e.Scene.Owner(i)
		if owner == "" {
			continue
		}
		sum := slices.Clone(out[i])
		for _, v := range [][]float32{w.text(owner), w.columns[i%scene.Row]} {
			for c := range sum {
				sum[c] += v[c]
			}
		}
		out[i] = sum
	}
	return out
}

// text returns the embedding of an owner's name.
func (w *words) text(name string) []float32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.texts[name] == nil {
		w.texts[name] = w.embed(" " + name)
	}
	return w.texts[name]
}

// pull adds the gradients of weight/2·|y − e|²/size to those of an item's
// vectors, [rows, C], for each vector y with a target e.
func (w *words) pull(targets [][]float32, row func(int) []float32, grads []float32, C int, weight float64) {
	by := float32(weight / w.size)
	for r, e := range targets {
		if e == nil {
			continue
		}
		y, g := row(r), grads[r*C:(r+1)*C]
		for c := range g {
			g[c] += by * (y[c] - e[c])
		}
	}
}
