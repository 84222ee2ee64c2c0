package decode

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
)

// reader reads prompts with the frozen core.
type reader struct {
	model  *llm.Model[float32]
	tok    *tokenizer.Tokenizer
	pool   *pool.Pool
	passes map[int]*llm.Pass[float32] // by positions
	held   map[int][]float32          // cached states by the example's number
	size   int                        // numbers in held
	most   int                        // maximum number of states of a prompt
}

// maxHeldStates bounds the cached numbers of states: 2 GiB.
const maxHeldStates = 512 << 20

// bucket is the multiple to which the length of a prompt is rounded up, so that
// passes of few lengths are allocated.
const bucket = 16

func openReader(c Core, dir string, workers *pool.Pool) (*reader, error) {
	m, tok, err := train.OpenBase(train.Resolve(dir, c.Base))
	if err != nil {
		return nil, train.At("/core/base", err)
	}
	if tok.Rules().Template != "" {
		return nil, train.Atf("/core/base", "core has a chat template; decoders require a core of plain text")
	}
	if c.Adapter != "" {
		if err := train.MergeAdapter(m, train.Resolve(dir, c.Adapter)); err != nil {
			return nil, train.At("/core/adapter", err)
		}
	}
	m.Freeze(func(string) bool { return true })
	m.Refresh(workers)
	return &reader{model: m, tok: tok, pool: workers, passes: map[int]*llm.Pass[float32]{}, held: map[int][]float32{}, most: c.States}, nil
}

// encode encodes a prompt as the core reads it, with BOS if it wants one.
func (r *reader) encode(prompt string) []int32 {
	ids := r.tok.Encode(prompt, tokenizer.Options{})
	if bos := r.tok.Special().BOS; r.tok.Rules().AddBOS && bos != tokenizer.None {
		ids = append([]int32{bos}, ids...)
	}
	return ids
}

// cached reports whether the states of an example are cached.
func (r *reader) cached(key int) bool {
	_, ok := r.held[key]
	return ok
}

// read sets the states of the examples, after the core's last norm, from the
// cache or by running the core on their prompts.
func (r *reader) read(all []example) error {
	waiting := map[int][]int{} // by the length of the prompt, in buckets
	ids := make([][]int32, len(all))
	for i := range all {
		if x, ok := r.held[all[i].key]; ok && all[i].key >= 0 {
			all[i].states = x
			continue
		}
		ids[i] = r.encode(all[i].prompt)
		n := len(ids[i])
		if n == 0 || n > r.model.Config.Context {
			return fmt.Errorf("prompt %q has %d tokens, want 1 to %d", all[i].prompt, n, r.model.Config.Context)
		}
		n = min((n+bucket-1)/bucket*bucket, r.model.Config.Context)
		waiting[n] = append(waiting[n], i)
	}
	lengths := make([]int, 0, len(waiting))
	for n := range waiting {
		lengths = append(lengths, n)
	}
	slices.Sort(lengths)
	for _, n := range lengths {
		for list := waiting[n]; len(list) > 0; {
			k := min(len(list), r.pool.Threads())
			if err := r.together(all, ids, list[:k], n); err != nil {
				return err
			}
			list = list[k:]
		}
	}
	return nil
}

// together runs the core on prompts of at most T tokens, one per thread.
func (r *reader) together(all []example, ids [][]int32, which []int, T int) error {
	p := r.passes[T]
	if p == nil {
		p = r.model.NewPass(r.pool, r.pool.Threads(), T)
		r.passes[T] = p
	}
	tokens := make([]int32, p.B*T)
	for row, i := range which {
		copy(tokens[row*T:], ids[i])
	}
	final, err := p.States(tokens, len(which))
	if err != nil {
		return err
	}
	for row, i := range which {
		n := len(ids[i])
		from := max(n-r.most, 0)
		x := flat(make([]float32, 0, (n-from)*final.Cols), final.Part(row*T+from, row*T+n))
		all[i].states = x
		if key := all[i].key; key >= 0 && !r.cached(key) && r.size+len(x) <= maxHeldStates {
			r.held[key], r.size = x, r.size+len(x)
		}
	}
	return nil
}
