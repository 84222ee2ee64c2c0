package openai

import (
	"sync"

	"mm-abi.org/mm/runtimes/talk"
)

// The limits of kept responses.
const (
	maxKept      = 256
	maxKeptBytes = 64 << 20
)

// kept holds the conversations of the last responses, for previous_response_id. A response
// is found only with the key that made it.
type kept struct {
	mu    sync.Mutex
	order []string
	all   map[string]conversation
	bytes int
}

type conversation struct {
	key   string
	turns []talk.Message
	bytes int
}

func (k *kept) get(id, key string) ([]talk.Message, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, ok := k.all[id]
	return c.turns, ok && c.key == key
}

// put keeps a conversation and drops the oldest ones beyond the limits.
func (k *kept) put(id, key string, turns []talk.Message) {
	c := conversation{key, turns, 0}
	for _, t := range turns {
		for _, p := range t.Parts {
			c.bytes += len(p.Text) + len(p.Data)
		}
		c.bytes += len(t.Reasoning)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.order, k.all[id], k.bytes = append(k.order, id), c, k.bytes+c.bytes
	for len(k.order) > maxKept || k.bytes > maxKeptBytes && len(k.order) > 0 {
		oldest := k.order[0]
		k.order, k.bytes = k.order[1:], k.bytes-k.all[oldest].bytes
		delete(k.all, oldest)
	}
}
