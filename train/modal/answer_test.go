package modal

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train"
)

// What counts as right is what greedy decoding says, word for word; both are
// found in other ways.
func TestAnswers(t *testing.T) {
	r := encoding()
	r.Stop.Steps, r.Optimizer.Rate, r.Data.Ask, r.Eval.Every = 40, 1e-2, []string{"*/size", "*/there"}, 0
	tr, _ := run(t, r, filepath.Join(t.TempDir(), "enc"), false, 2)
	p := tr.Task
	right, wrong := 0, 0
	for from := 0; from < 30; from += 3 {
		examples, items, err := p.show(from, 3, Trial{N: 30})
		if err != nil {
			t.Fatal(err)
		}
		for row, e := range examples {
			doc, ok := p.question(e.Modality, e.Turns[from%len(e.Turns)], Own)
			if !ok {
				t.Fatal("a question has no room")
			}
			p.trial.docs[row] = doc
		}
		if _, _, err := p.ask(items); err != nil {
			t.Fatal(err)
		}
		var counted []bool
		for row := range p.trial.docs {
			one := train.Tally{}
			all := p.trial.docs
			p.trial.docs = make([]document, len(all))
			p.trial.docs[row] = all[row]
			if err := p.count(one); err != nil {
				t.Fatal(err)
			}
			p.trial.docs = all
			counted = append(counted, one.Scores()[0].Right == 1)
		}
		said, err := p.decode()
		if err != nil {
			t.Fatal(err)
		}
		for row, ok := range counted {
			want := p.trial.docs[row].turns[0].Answer
			if got := strings.TrimPrefix(said[row], " "); (got == want) != ok {
				t.Errorf("said %q for %q, counted as right: %v", said[row], want, ok)
			}
			if ok {
				right++
			} else {
				wrong++
			}
		}
	}
	if right == 0 || wrong == 0 {
		t.Errorf("%d right and %d wrong: nothing is told apart", right, wrong)
	}
}

// Another's input is that of an example that nobody is asked about, of the same
// source; nothing is none.
func TestLooks(t *testing.T) {
	tr, err := New(t.Context(), encoding(), train.Options{From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	shown := func(from int, look Look) ([]Example, []made) {
		examples, items, err := tr.Task.show(from, 2, Trial{N: 3, Look: look})
		if err != nil {
			t.Fatal(err)
		}
		return examples, items
	}
	asked, own := shown(0, Own)
	same, another := shown(0, Another)
	_, later := shown(3, Own)
	if !cmp.Equal(asked[0].Turns, same[0].Turns) || cmp.Equal(own[0].data, another[0].data) || !cmp.Equal(later[0].data, another[0].data) {
		t.Error("another's input is not that of the third example behind")
	}
	if _, none := shown(0, Nothing); none[0].data != nil || none[1].data != nil {
		t.Error("nothing is something")
	}
}
