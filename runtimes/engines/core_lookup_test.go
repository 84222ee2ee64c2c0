package engines_test

import (
	"slices"
	"testing"

	"mm-abi.org/mm/runtimes"
)

// TestLookup: without a draft model, repeated text is proposed again, also under a grammar; with NoDraft
// never.
func TestLookup(t *testing.T) {
	round := &runtimes.Grammar{} // 40 … 45, over and over
	for i := range int32(6) {
		round.States = append(round.States, runtimes.State{
			Edges: []runtimes.Edge{{From: 40 + i, To: 40 + i, Next: (i + 1) % 6}}, Else: runtimes.Nowhere,
		})
	}
	var texts [2][]int32
	for i, plain := range []bool{false, true} {
		b := core(t)
		b.NoDraft = plain
		s, err := open(t, b, runtimes.Limits{Threads: 1}).NewSequence(t.Context(), runtimes.SequenceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Feed(t.Context(), runtimes.Positions{Tokens: prompt}); err != nil {
			t.Fatal(err)
		}
		ahead := 0
		stop, err := s.Generate(t.Context(), runtimes.Generation{MaxTokens: 150, Allow: round}, func(id int32) error {
			if s.Len() > len(prompt)+len(texts[i]) {
				ahead++
			}
			texts[i] = append(texts[i], id)
			return nil
		})
		if err != nil || stop != runtimes.StopLength || s.Len() != len(prompt)+149 {
			t.Errorf("without drafts %v: %s, %d positions, %v", plain, stop, s.Len(), err)
		}
		if (ahead == 0) != plain {
			t.Errorf("without drafts %v: %d tokens were read before they were told", plain, ahead)
		}
	}
	if !slices.Equal(texts[0], texts[1]) {
		t.Errorf("%v, without drafts %v", texts[0], texts[1])
	}
}
