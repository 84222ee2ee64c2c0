package infer

import (
	"slices"
	"testing"
	"time"
)

// arrival is the outcome of simulated clients.
type arrival struct {
	first []time.Duration // of each request, sorted
	gap   time.Duration   // the largest between two tokens of an answer
	total time.Duration
}

// simulate runs clients that send requests one after another, in steps whose time is that of
// SmolLM2-135M Q8_0 on two cores: 5 ms, and 0.95 ms a row.
func simulate(clients, asks, prompt, answer int) (out arrival) {
	m := &Model{farthest: 1e9}
	type client struct {
		r           *reading
		began, last time.Duration
		left, asks  int
	}
	var live []*reading
	of := map[*reading]*client{}
	ask := func(c *client, now time.Duration) {
		c.r = &reading{s: &Session{m: m, presence: outside}, rows: prompt}
		c.began, c.left, c.asks = now, answer, c.asks-1
		of[c.r] = c
		live = append(live, c.r)
	}
	for range clients {
		ask(&client{asks: asks}, 0)
	}
	var q schedule
	for now := time.Duration(0); len(live) > 0; {
		streams, rows := 0, 0
		for _, r := range live {
			if r.s.presence == asking {
				streams++
			}
		}
		part := slices.Clone(q.choose(live, streams))
		for _, r := range part {
			rows += r.to - r.read
		}
		now += 5*time.Millisecond + time.Duration(rows)*950*time.Microsecond
		out.total = now
		for _, r := range part {
			if r.read = r.to; r.read < r.rows {
				continue
			}
			c := of[r]
			if r.s.presence == outside {
				out.first = append(out.first, now-c.began)
			} else {
				out.gap = max(out.gap, now-c.last)
			}
			c.last = now
			live = slices.DeleteFunc(live, func(o *reading) bool { return o == r })
			if c.left--; c.left == 0 {
				if c.asks > 0 {
					ask(c, now)
				}
				continue
			}
			c.r = &reading{s: &Session{m: m, presence: asking}, before: prompt, rows: 1}
			of[c.r] = c
			live = append(live, c.r)
		}
	}
	slices.Sort(out.first)
	return out
}

// TestFirstTokens: many clients with distinct texts. Half of the first tokens come while the
// first wave of texts is read, a gap is at most that of a full step, and few clients have
// shorter ones.
func TestFirstTokens(t *testing.T) {
	for _, c := range []struct {
		clients              int
		half, most, gap, all time.Duration
	}{
		{1, 460 * time.Millisecond, 460 * time.Millisecond, 6 * time.Millisecond, 2430 * time.Millisecond},
		{4, 980 * time.Millisecond, 1500 * time.Millisecond, 81 * time.Millisecond, 6360 * time.Millisecond},
		{16, 2300 * time.Millisecond, 6650 * time.Millisecond, 248 * time.Millisecond, 19850 * time.Millisecond},
	} {
		got := simulate(c.clients, 2, 471, 128)
		at := func(share float64) time.Duration { return got.first[int(share*float64(len(got.first)-1))] }
		if half, most := at(.5), at(.95); half > c.half || most > c.most || got.gap > c.gap || got.total > c.all {
			t.Errorf("%d clients: first token %v (95 %%: %v), largest gap %v, all %v; want at most %v, %v, %v, %v", c.clients, half, most, got.gap, got.total, c.half, c.most, c.gap, c.all)
		}
	}
}
