package modal

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train"
)

// Right answers are those of greedy decoding, word for word; both are computed
// in another way.
func TestAnswers(t *testing.T) {
	t.Parallel()
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
			doc, ok := p.question(e.Modality, e.Turns[from%len(e.Turns)], Actual)
			if !ok {
				t.Fatal("question does not fit")
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
		output, err := p.decode()
		if err != nil {
			t.Fatal(err)
		}
		for row, ok := range counted {
			want := p.trial.docs[row].turns[0].Answer
			if got := strings.TrimPrefix(output[row], " "); (got == want) != ok {
				t.Errorf("decoded %q, want %q, counted as right: %v", output[row], want, ok)
			}
			if ok {
				right++
			} else {
				wrong++
			}
		}
	}
	if right == 0 || wrong == 0 {
		t.Errorf("%d right and %d wrong: want some of both", right, wrong)
	}
}

// The look "another" shows the input of an example of the same source that is
// not evaluated; "nothing" shows none.
func TestLooks(t *testing.T) {
	tr, err := New(t.Context(), encoding(), train.Options{From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	shown := func(from int, look Look) ([]Example, []entry) {
		examples, items, err := tr.Task.show(from, 2, Trial{N: 3, Look: look})
		if err != nil {
			t.Fatal(err)
		}
		return examples, items
	}
	first, actual := shown(0, Actual)
	same, another := shown(0, Another)
	_, later := shown(3, Actual)
	if !cmp.Equal(first[0].Turns, same[0].Turns) || cmp.Equal(actual[0].data, another[0].data) || !cmp.Equal(later[0].data, another[0].data) {
		t.Error("wrong input for another")
	}
	if _, none := shown(0, Nothing); none[0].data != nil || none[1].data != nil {
		t.Error("input for nothing")
	}
}
