package decode

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
)

// reader is the frozen core and what it makes of prompts.
type reader struct {
	model  *llm.Model[float32]
	tok    *tokenizer.Tokenizer
	pool   *pool.Pool
	passes map[int]*llm.Pass[float32] // by positions
	held   map[int][]float32          // states by the number of the example
	size   int                        // numbers in held
	most   int                        // states of a prompt that are wanted
}

// maxHeldStates bounds the numbers that are remembered of states: 2 GiB.
const maxHeldStates = 512 << 20

// bucket is what the length of a prompt is rounded up to, so that there are few
// lengths to have memory for.
const bucket = 16

func openReader(c Core, dir string, workers *pool.Pool) (*reader, error) {
	m, tok, err := train.OpenBase(train.Resolve(dir, c.Base))
	if err != nil {
		return nil, train.At("/core/base", err)
	}
	if tok.Vocabulary().Template != "" {
		return nil, train.Atf("/core/base", "the core talks in turns, by a template of its own: decoders are trained behind cores that read plain text")
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

// encode is a prompt as the core reads it: behind BOS where it wants one.
func (r *reader) encode(prompt string) []int32 {
	ids := r.tok.Encode(prompt, tokenizer.Options{})
	if bos := r.tok.Special().BOS; r.tok.Vocabulary().AddBOS && bos != tokenizer.None {
		ids = append([]int32{bos}, ids...)
	}
	return ids
}

// known reports whether the states of an example are remembered.
func (r *reader) known(key int) bool {
	_, ok := r.held[key]
	return ok
}

// read fills in the states of the examples, those behind the core's last norm:
// from memory, or by having the core read their prompts.
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
			return fmt.Errorf("the prompt %q has %d tokens, the core reads 1 to %d", all[i].prompt, n, r.model.Config.Context)
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

// together reads some prompts of at most T tokens, one a thread.
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
		if key := all[i].key; key >= 0 && !r.known(key) && r.size+len(x) <= maxHeldStates {
			r.held[key], r.size = x, r.size+len(x)
		}
	}
	return nil
}
